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
from tests.support.deploy.run import PATIENCE_S, Run
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.wait import eventually

GOOD_S = 20.0
"""Traffic that is well, before it is not."""


@contextmanager
def running(folder: Path, stand_in: PagerDuty, **env: str) -> Iterator[Run]:
    """Everything, with traffic, one objective of 99.9 % and one destination; ended with the block. `env`: further variables."""
    run = Run(folder / "home")
    run.env |= {"WEIR_OUTBOUND_ALLOW": "127.0.0.1", "WEIR_TRAFFIC_RPS": "5", **env}
    try:
        run.start()
        as_owner(run, f"set_up({stand_in.url!r})")
        eventually(lambda: bool(run.get("latency?from=now-5m&to=now")["requests"]), PATIENCE_S * 3)
        time.sleep(GOOD_S)
        yield run
    finally:
        run.end()


def break_everything(run: Run) -> float:
    """No replica can be reached from now on; the Unix time of it."""
    return float(as_owner(run, "break_everything()").strip().splitlines()[-1])


def mend_everything(run: Run) -> None:
    """Every replica can be reached again."""
    as_owner(run, "mend_everything()")


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
    as_owner(run, f"resolve({key!r})")


def as_owner(run: Run, call: str) -> str:
    """What a call of a function of `owner.py` prints."""
    return in_shell(run, f"from tests.support.deploy import owner; owner.{call}")


def in_shell(run: Run, code: str) -> str:
    """What `manage.py shell` prints, run as the owner of this home."""
    command = (sys.executable, "manage.py", "shell", "--no-imports", "-c", code)
    environment = {**os.environ, "WEIR_HOME": str(run.home)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def key_of(stand_in: PagerDuty) -> str:
    """Of the objective's alert; empty while there is none."""
    return next((key for (_, key), alert in stand_in.alerts.items() if alert.opened and "/all-answered/" in key), "")
