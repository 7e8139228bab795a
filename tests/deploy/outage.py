"""A total outage on a machine that runs everything, and the page that must come of it. Shared by the test and the bench."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.process import ROOT
from tests.controlplane.incidents.delivery.pagerduty import PagerDuty
from tests.deploy.test_run import PATIENCE_S, Run, eventually

GOOD_S = 20.0
"""Traffic that is well, before it is not."""

SET_UP = """
from controlplane.incidents.delivery.models import Destination, Kind
from controlplane.slo.models import StoredObjective
from controlplane.slo.objective import Objective, Rolling
from controlplane.slo.save import save_objective
from controlplane.slo.sli import Availability
StoredObjective.objects.update(enabled=False)
save_objective(Objective(slug="all-answered", name="Every request is answered", indicator=Availability(), target=0.999,
                         period=Rolling(30 * 86_400), owner=""), who="test")
destination = Destination(name="stand-in", kind=Kind.PAGERDUTY)
destination.point_at({url!r}, "0" * 32)
destination.save()
"""
BREAK = """
import time
from controlplane.fleet.models import Replica
from controlplane.fleet.publish import publish
Replica.objects.update(grpc="127.0.0.1:1")
print(time.time(), flush=True)
publish()
"""
RESOLVE = """
from django.utils import timezone
from controlplane.incidents import life
from controlplane.incidents.models import Incident
life.resolve({key!r}, "olga", timezone.now())
"""


@contextmanager
def running(folder: Path, stand_in: PagerDuty) -> Iterator[Run]:
    """Everything, with traffic, one objective of 99.9 % and one destination; ended with the block."""
    run = Run(folder / "home")
    run.env |= {"WEIR_OUTBOUND_ALLOW": "127.0.0.1", "WEIR_TRAFFIC_RPS": "5"}
    try:
        run.start()
        tell(run, SET_UP.format(url=stand_in.url))
        eventually(lambda: bool(run.get("latency?from=now-5m&to=now")["requests"]), PATIENCE_S * 3)
        time.sleep(GOOD_S)
        yield run
    finally:
        if run.launcher.poll() is None:
            run.launcher.terminate()
            run.launcher.wait(PATIENCE_S)
        for process in run.processes():
            process.kill()


def break_everything(run: Run) -> float:
    """No replica can be reached from now on; the Unix time of it."""
    return float(tell(run, BREAK).strip().splitlines()[-1])


def resolve(run: Run, key: str) -> None:
    """As a person does it on the incident's page."""
    tell(run, RESOLVE.format(key=key))


def tell(run: Run, code: str) -> str:
    """What `manage.py shell` prints, run as the owner of this home."""
    command = (sys.executable, "manage.py", "shell", "--no-imports", "-c", code)
    environment = {**os.environ, "WEIR_HOME": str(run.home)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def key_of(stand_in: PagerDuty) -> str:
    """Of the one alert; empty while there is none."""
    return next((key for (_, key), alert in stand_in.alerts.items() if alert.opened), "")
