"""Pages go out while Redis is away, from the worker's first moment on."""

import subprocess
import sys
from pathlib import Path

from deploy.local.process import ROOT, Command
from tests.support.deploy.migrated import migrate_home
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty
from tests.support.start import Start

SET_UP = """
from controlplane.incidents.notify.delivery.models import Destination
from controlplane.incidents.notify.delivery.admin import send_test
destination = Destination(name="stand-in", kind="pagerduty")
destination.point_at({url!r}, "0" * 32)
destination.save()
send_test(destination, "olga")
"""


def test_the_worker_pages_without_a_broker(home: Path, shared_dir: Path, start: Start) -> None:
    env = {"WEIR_HOME": str(home), "WEIR_REDIS_URL": "redis://127.0.0.1:1/0", "WEIR_OUTBOUND_ALLOW": "127.0.0.1"}
    with PagerDuty(shared_dir / CONTRACT) as stand_in:
        migrate_home(home)
        set_up = ("shell", "--no-imports", "-c", SET_UP.format(url=stand_in.url))
        subprocess.run([sys.executable, "manage.py", *set_up], cwd=ROOT, env=env, check=True)
        celery = (sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "-B")
        worker = start(Command("worker", celery, env=env))
        is_paged = stand_in.wait(lambda it: any(alert.state == "resolved" for alert in it.alerts.values()), 60)
        assert is_paged, worker.log_tail()
        assert stand_in.violations == []
