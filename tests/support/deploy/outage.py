"""Causes outages on a machine that runs everything, and finds the pages that they cause. For tests and the bench."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from deploy.local.process import ROOT
from tests.support.deploy.run import PATIENCE_S, Run
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.wait import eventually

GOOD_S = 20.0
"""How long traffic runs well before an outage."""


@contextmanager
def running(folder: Path, stand_in: PagerDuty, *, good_s: float = GOOD_S, **env: str) -> Iterator[Run]:
    """Everything runs, with traffic, one objective of 99.9 % and one destination, while the block runs. `env`: further variables."""
    run = Run(folder / "home")
    run.env |= {"WEIR_OUTBOUND_ALLOW": "127.0.0.1", "WEIR_TRAFFIC_RPS": "5", "WEIR_DEMO_POLICIES": "false", **env}
    try:
        run.start()
        as_owner(run, f"set_up({stand_in.url!r})")
        eventually(lambda: bool(run.get("latency?from=now-5m&to=now")["requests"]), within_s=PATIENCE_S * 3)
        time.sleep(good_s)
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
    """`command`: words in the command of the affected processes. `components`: at least one of them must cause a page. `says`: words in
    the page's text. A fault that `hangs` stops the processes with SIGSTOP; any other kills them."""

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
    """The fault lasts while the block runs, which gets its Unix time. The launcher is stopped, so that it restarts nothing."""
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
    groups = set()
    for process in run.processes():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it has just ended
            if command in " ".join(process.cmdline()):
                groups.add(os.getpgid(process.pid))
    groups.discard(os.getpgid(run.launcher.pid))
    assert groups, command
    return groups


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
    match = re.search(r"since (\d\d):(\d\d):(\d\d) UTC", summary)
    assert match, summary
    hour, minute, second = map(int, match.groups())
    at = datetime.fromtimestamp(near, UTC).replace(hour=hour, minute=minute, second=second, microsecond=0)
    return at.timestamp()


def resolve(run: Run, key: str) -> None:
    """Resolves the incident, as a person does on its page."""
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
