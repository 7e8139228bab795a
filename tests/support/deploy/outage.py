"""Outages on a machine that runs everything, and the pages that must come of them. Shared by the test and the bench."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.local.process import ROOT
from tests.deploy.test_run import PATIENCE_S, Run, eventually
from tests.support.incidents.pagerduty import PagerDuty

GOOD_S = 20.0
"""Traffic that is well, before it is not."""

SET_UP = """
from controlplane.incidents.notify.delivery.models import Destination, Kind
from controlplane.slo.models import StoredObjective
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.save import save_objective
from controlplane.slo.core.sli import Availability
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
MEND = """
import json
from django.conf import settings
from controlplane.fleet.models import Replica
from controlplane.fleet.publish import publish
for model in json.loads((settings.CONFIG.home / "run" / "fleet.json").read_text())["models"]:
    for pool in model["pools"]:
        for one in pool["replicas"]:
            Replica.objects.filter(pool__name=pool["name"], name=one["name"]).update(grpc=one["grpc"])
publish()
"""
RESOLVE = """
from django.utils import timezone
from controlplane.incidents import life
from controlplane.incidents.models import Incident
life.resolve({key!r}, "olga", timezone.now())
"""


@contextmanager
def running(folder: Path, stand_in: PagerDuty, **env: str) -> Iterator[Run]:
    """Everything, with traffic, one objective of 99.9 % and one destination; ended with the block. `env`: further variables."""
    run = Run(folder / "home")
    run.env |= {"WEIR_OUTBOUND_ALLOW": "127.0.0.1", "WEIR_TRAFFIC_RPS": "5", **env}
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


def mend_everything(run: Run) -> None:
    """Every replica can be reached again."""
    tell(run, MEND)


@dataclass(frozen=True)
class Fault:
    """`command`: words of the command of the processes that it hits. `components`: of which at least one page must come; `says`: what
    its text must say. A fault that `hangs` leaves the processes there, stopped."""

    command: str
    components: tuple[str, ...]
    says: str
    hangs: bool = False


FAULTS = {
    "gateway_down": Fault("-m inference", ("gateway",), "Gateway is down since"),
    "gateway_hang": Fault("-m inference", ("gateway",), "Gateway has not answered since", hangs=True),
    "telemetry_down": Fault("-m controlplane.telemetry", ("telemetry",), "Telemetry is down since"),
    "telemetry_hang": Fault(
        "-m controlplane.telemetry", ("telemetry",), "Telemetry has not answered since", hangs=True
    ),
    "hang": Fault("triton", ("pool:chat-large-local", "pool:chat-small-local"), "replicas up since", hangs=True),
    "replicas_gone": Fault("triton", ("pool:chat-large-local", "pool:chat-small-local"), "replicas up since"),
}


@contextmanager
def broken(run: Run, fault: Fault) -> Iterator[float]:
    """The fault lasts as long as the block, which gets the Unix time of it. The launcher stands still, so that it mends nothing."""
    groups = groups_of(run, fault.command)
    run.launcher.send_signal(signal.SIGSTOP)
    try:
        for group in groups:
            os.killpg(group, signal.SIGSTOP if fault.hangs else signal.SIGKILL)
        yield time.time()
    finally:
        if fault.hangs:
            for group in groups:
                os.killpg(group, signal.SIGCONT)
        run.launcher.send_signal(signal.SIGCONT)


def groups_of(run: Run, command: str) -> set[int]:
    """The process groups of the parts whose command has these words; each part has one of its own."""
    found = {os.getpgid(one.pid) for one in run.processes() if command in " ".join(one.cmdline())}
    found.discard(os.getpgid(run.launcher.pid))
    assert found, command
    return found


def page_of(
    stand_in: PagerDuty, components: tuple[str, ...], after: float, severity: str = "critical"
) -> tuple[str, dict[str, Any]] | None:
    """The key and the payload of a page of one of the components that came after a Unix time."""
    for (_, key), alert in list(stand_in.alerts.items()):
        for action, event in list(alert.taken):
            payload = event.get("payload") or {}
            is_new = action == "trigger" and datetime.fromisoformat(payload["timestamp"]).timestamp() >= after
            if is_new and payload.get("component") in components and payload["severity"] == severity:
                return key, payload
    return None


def since_of(summary: str, near: float) -> float:
    """The Unix time that a page's text says it began at, on the day of `near`."""
    found = re.search(r"since (\d\d):(\d\d):(\d\d) UTC", summary)
    assert found, summary
    hour, minute, second = map(int, found.groups())
    at = datetime.fromtimestamp(near, UTC).replace(hour=hour, minute=minute, second=second, microsecond=0)
    return at.timestamp()


def resolve(run: Run, key: str) -> None:
    """As a person does it on the incident's page."""
    tell(run, RESOLVE.format(key=key))


def tell(run: Run, code: str) -> str:
    """What `manage.py shell` prints, run as the owner of this home."""
    command = (sys.executable, "manage.py", "shell", "--no-imports", "-c", code)
    environment = {**os.environ, "WEIR_HOME": str(run.home)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def key_of(stand_in: PagerDuty) -> str:
    """Of the objective's alert; empty while there is none."""
    return next((key for (_, key), alert in stand_in.alerts.items() if alert.opened and "/all-answered/" in key), "")
