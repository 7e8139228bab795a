"""Random incidents through 429, 5xx, silence, lost answers and killed senders: no contract violation, one open alert per key, no
lost or reordered resolve."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path

import pytest
from django.db import connection, transaction

from controlplane.incidents.notify.core.notice import Notice, NoticeAction
from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.models import Delivery
from deploy.local.process import ROOT
from tests.support.incidents.notices import notice, pagerduty
from tests.support.incidents.pagerduty import PagerDuty, Storm
from tests.support.incidents.sender import QUICK
from tests.support.soak import sized

pytestmark = pytest.mark.django_db(transaction=True)

SEQUENCES = sized(30, soak=1000)
KILLS = sized(2, soak=100)
SENDERS = 2
STUCK_AFTER_S = 60.0
"""Without one page less: on a busy machine it takes as long as it takes."""


def incident(key: str, chance: random.Random) -> list[Notice]:
    """Triggers (the first, and updates) and acknowledgements; mostly a resolve, and now and then the same key once more."""
    actions: list[NoticeAction] = []
    for life in range(1 + (chance.random() < 0.2)):
        actions.append("trigger")
        actions += chance.choices(["trigger", "acknowledge"], k=chance.choice([0, 0, 1, 2, 3]))  # type: ignore[arg-type]
        if life == 0 or chance.random() < 0.8:
            actions.append("resolve")
    if chance.random() < 0.1 and actions[-1] == "resolve":
        actions.pop()
    return [
        notice(action, sequence, key=key, details={"sequence": sequence}) for sequence, action in enumerate(actions, 1)
    ]


@contextmanager
def zygote(home: Path) -> Iterator["subprocess.Popen[str]"]:
    database = connection.settings_dict
    url = (
        f"sqlite:///{database['NAME']}"
        if connection.vendor == "sqlite"
        else f"postgresql://{database['USER']}@{str(database['HOST']).replace('/', '%2F')}/{database['NAME']}"
    )
    environment = {**os.environ, "WEIR_DATABASE_URL": url, "WEIR_HOME": str(home), "WEIR_OUTBOUND_ALLOW": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.support.incidents.sender_zygote", dumps(asdict(QUICK))]
    with (
        (home / "senders.log").open("w") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (home / "senders.log").read_text()
        try:
            yield process
        finally:
            process.kill()


class Senders:
    """Real processes, killed outright."""

    def __init__(self, parent: "subprocess.Popen[str]") -> None:
        self._parent = parent
        self.pids = [self._spawn() for _ in range(SENDERS)]

    def _spawn(self) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def kill(self, index: int) -> None:
        os.kill(self.pids[index], signal.SIGKILL)
        self.pids[index] = self._spawn()

    def end(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)


def test_random_incidents_survive_storms_and_killed_senders(stand_in: PagerDuty, home: Path) -> None:
    chance = random.Random(4)
    stand_in.storm = Storm(seed=4, silence_s=QUICK.timeout_s * 1.2)
    pagerduty("all", url=stand_in.url)
    incidents = {f"incident-{number}": incident(f"incident-{number}", chance) for number in range(SEQUENCES)}
    lives = [iter(steps) for steps in incidents.values()]
    total = sum(len(steps) for steps in incidents.values())
    written = killed = 0
    with zygote(home) as parent:
        senders = Senders(parent)
        try:
            # Each incident has its own pace; a sender dies every so many notices, and the last ones while the rest drains.
            while lives:
                with transaction.atomic():
                    for life in chance.sample(lives, min(len(lives), chance.randint(1, 20))):
                        step = next(life, None)
                        if step is None:
                            lives.remove(life)
                            continue
                        enqueue(step)
                        written += 1
                while killed < KILLS * written / total * 0.8:
                    time.sleep(chance.uniform(0, 0.4))  # any point of what a sender does
                    senders.kill(chance.randrange(SENDERS))
                    killed += 1
            least, deadline = total, time.monotonic() + STUCK_AFTER_S
            while (pending := Delivery.objects.filter(state="pending").count()) and time.monotonic() < deadline:
                if pending < least:
                    least, deadline = pending, time.monotonic() + STUCK_AFTER_S
                time.sleep(chance.uniform(0, 0.4))
                if killed < KILLS:
                    senders.kill(chance.randrange(SENDERS))
                    killed += 1
        finally:
            senders.end()
    log = (home / "senders.log").read_text()
    assert not Delivery.objects.filter(state="pending").exists(), log[-3000:]
    assert killed == KILLS
    assert not stand_in.violations
    assert not Delivery.objects.filter(state="dead").exists()
    for key, steps in incidents.items():
        assert_told(stand_in, key, [step.action for step in steps])


def assert_told(stand_in: PagerDuty, key: str, meant: list[NoticeAction]) -> None:
    """What people see of `key` is what was meant: as many alerts, in the same order, and the same end."""
    alert = stand_in.alert(key)
    told = [action for action, _ in alert.taken]
    once = [action for action, _ in itertools.groupby(told)]  # a step told twice is one step
    assert once == [action for action, _ in itertools.groupby(meant)], key
    assert alert.opened == lives_in(meant), key
    shown = [event["payload"]["custom_details"]["sequence"] for action, event in alert.taken if action == "trigger"]
    assert shown == sorted(shown), key
    assert (alert.state == "resolved") == (meant[-1] == "resolve"), key


def lives_in(actions: Sequence[str]) -> int:
    """How many alerts: the first trigger opens one, and so does each that follows a resolve."""
    return sum(now == "trigger" and before == "resolve" for before, now in itertools.pairwise(["resolve", *actions]))
