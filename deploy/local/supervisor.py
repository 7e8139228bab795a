"""Starts parts in the order of their needs, restarts those that die or hang, reports both, and ends all of them.

No library fits: circus (last release February 2025) and supervisor do not order parts by readiness and outlive their parent, and honcho
ends everything when one part ends. The loop never waits for an answer: each probe runs in a thread (`watch.py`).
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from controlplane.core.backoff import doubled_s
from deploy.local.errors import CannotRunError
from deploy.local.logs import Log
from deploy.local.process import Command, Managed
from deploy.local.watch import Patience, Probe, Watch

TICK_S = 0.05
FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 30.0
STEADY_S = 60.0  # a part that ran for so long starts with the first pause again
ATTEMPTS = 3  # starts of a part that was never ready: then more starts will not help
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Part:
    command: Command
    needs: tuple[str, ...] = ()  # the parts that must have been ready once before this one starts
    once: bool = False  # a task of the set-up: ready when it has ended with status 0

    @property
    def name(self) -> str:
        return self.command.name


class State(Enum):
    WAITING = auto()  # for its needs, or for its pause to be over
    STARTING = auto()
    READY = auto()
    ENDING = auto()  # SIGTERM is sent, because it did not become ready, or is removed


class _Supervised:
    def __init__(self, part: Part, log: Log) -> None:
        self.part = part
        self.log = log
        self.process = Managed(part.command, log.path)
        self.state = State.WAITING
        self.was_ready = False  # ever
        self.removed = False  # it is not started again
        self.starts = 0
        self.failures = 0  # in a row
        self.not_before = 0.0
        self.since = time.monotonic()  # of the state
        self.probe: Probe | None = None  # of its readiness, while it starts
        self.watch: Watch | None = None  # while it is ready, where it can be probed


@dataclass(frozen=True, slots=True)
class Standing:
    """How a part stands. `restarts` counts its starts after the first."""

    state: State
    restarts: int


class Supervisor:
    """Runs `parts` until a signal. `say` gets a sentence per event. `each_round` is called between looks at the parts, with this
    supervisor: it may add and remove parts.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        logs: Path,
        say: Callable[[str], None],
        patience: Patience | None = None,
        each_round: Callable[["Supervisor"], None] | None = None,
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._each_round = each_round
        self._say = say
        self._patience = patience or Patience()
        self._last_round = time.monotonic()
        self._parts: dict[str, _Supervised] = {}
        for part in parts:
            self.add(part)
        self._all_ready = False
        self._stopping = False

    def run(self, when_ready: Callable[[], None]) -> None:
        """Returns after SIGINT, SIGTERM or SIGHUP, when everything has ended. Raises CannotRunError when a part does not start."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        try:
            while not self._stopping:
                self._notice_standstill()
                for supervised in list(self._parts.values()):
                    self._look_after(supervised)
                if self._each_round is not None:
                    self._each_round(self)
                if not self._all_ready and all(supervised.was_ready for supervised in self._parts.values()):
                    self._all_ready = True
                    when_ready()
                time.sleep(TICK_S)
        finally:
            self._end_all()

    def add(self, part: Part) -> None:
        """Start `part` in the next round. One that is added once all were ready ends the run in no case."""
        self._parts[part.name] = _Supervised(part, Log(self._logs / f"{part.name}.log"))

    def remove(self, name: str) -> None:
        """Send it SIGTERM, after the grace period SIGKILL, and do not start it again. It is away once `standing` is None."""
        supervised = self._parts[name]
        supervised.removed = True
        if supervised.process.alive:
            supervised.process.terminate()
            self._enter(supervised, State.ENDING)
        else:
            self._forget(supervised)

    def standing(self, name: str) -> Standing | None:
        """None where there is no such part."""
        supervised = self._parts.get(name)
        return None if supervised is None else Standing(supervised.state, max(supervised.starts - 1, 0))

    def _forget(self, supervised: _Supervised) -> None:
        supervised.process.kill()  # its children too
        del self._parts[supervised.part.name]
        self._say(f"{supervised.part.name} ended, as it is not needed any more")

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _look_after(self, supervised: _Supervised) -> None:
        for line in supervised.log.follow():
            self._say(f"{supervised.part.name}: {line}")
        now = time.monotonic()
        match supervised.state:
            case State.WAITING:
                if now >= supervised.not_before and all(map(self._was_ready, supervised.part.needs)):
                    supervised.process.start()
                    supervised.starts += 1
                    self._enter(supervised, State.STARTING)
            case State.STARTING if supervised.part.once and supervised.process.exit_code == 0:
                self._ready(supervised, now)
            case State.READY if supervised.part.once:
                pass
            case State.STARTING | State.READY if not supervised.process.alive:
                self._ended(supervised, now)
            case State.STARTING if not supervised.part.once and _is_ready(supervised):
                self._ready(supervised, now)
            case State.STARTING if now - supervised.since > supervised.part.command.start_s:
                self._say(
                    f"{supervised.part.name} does not answer after {supervised.part.command.start_s:.0f} s: ending it"
                )
                supervised.process.terminate()
                self._enter(supervised, State.ENDING)
            case State.ENDING if not supervised.process.alive or now - supervised.since > GRACE_S:
                if supervised.removed:
                    self._forget(supervised)
                else:
                    self._ended(supervised, now)
            case State.READY if (
                supervised.watch is not None and supervised.watch.silent_s(now) > self._patience.silent_s
            ):
                silent_s = self._patience.silent_s
                self._say(
                    f"{supervised.part.name} has not answered for {silent_s:g} s: ending it and starting it again"
                )
                self._ended(supervised, now)
            case _:
                pass

    def _was_ready(self, name: str) -> bool:
        """Also of a part that was removed: what needs it waits no longer."""
        supervised = self._parts.get(name)
        return supervised is None or supervised.was_ready

    def _enter(self, supervised: _Supervised, state: State) -> None:
        supervised.state = state
        supervised.since = time.monotonic()
        supervised.probe = None
        supervised.watch = self._watch(supervised.part) if state is State.READY else None

    def _watch(self, part: Part) -> Watch | None:
        answers = part.command.answers
        return None if answers is None or part.once else Watch(answers, self._patience.probe_every_s)

    def _notice_standstill(self) -> None:
        """Start all watches again after this process or the machine stood still: the parts may have stood still as well."""
        now = time.monotonic()
        if now - self._last_round > self._patience.jump_s:
            for supervised in self._parts.values():
                supervised.watch = self._watch(supervised.part) if supervised.state is State.READY else None
        self._last_round = now

    def _ready(self, supervised: _Supervised, now: float) -> None:
        again = "again " if supervised.was_ready else ""
        word = "done" if supervised.part.once else "ready"
        self._say(f"{supervised.part.name} {word} {again}after {now - supervised.since:.1f} s")
        supervised.was_ready = True
        self._enter(supervised, State.READY)

    def _ended(self, supervised: _Supervised, now: float) -> None:
        if supervised.state is State.READY and now - supervised.since > STEADY_S:
            supervised.failures = 0
        supervised.process.kill()  # its children too, which may hold its port or its memory
        how = _how(supervised.process.exit_code)
        supervised.failures += 1
        given_up = supervised.part.once or supervised.failures >= ATTEMPTS
        if given_up and not supervised.was_ready and supervised.process.exit_code == os.EX_CONFIG:
            raise CannotRunError(supervised.process.log_tail(1))
        if given_up and not supervised.was_ready and not self._all_ready:
            raise CannotRunError(
                f"{supervised.part.name} {how} instead of starting; the end of {supervised.log.path}:\n{supervised.process.log_tail()}"
            )
        pause_s = doubled_s(FIRST_PAUSE_S, supervised.failures, MAX_PAUSE_S)
        self._say(f"{supervised.part.name} {how}: starting it again in {pause_s:g} s")
        supervised.not_before = now + pause_s
        self._enter(supervised, State.WAITING)

    def _end_all(self) -> None:
        """In the opposite order: first the parts that no other needs. After the grace period the rest of a group is killed."""
        needs = {
            name: [need for need in supervised.part.needs if need in self._parts]
            for name, supervised in self._parts.items()
        }
        for group in reversed(_groups(needs)):
            processes = [self._parts[name].process for name in group]
            deadline = time.monotonic() + GRACE_S
            for process in processes:
                process.terminate()
            for process in processes:
                process.stop(max(deadline - time.monotonic(), 0.0))


def _groups(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Parts by depth: each group needs only those before it."""
    depth: dict[str, int] = {}

    def measure(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((measure(need) for need in needs[name]), default=-1)
        return depth[name]

    groups: list[list[str]] = [[] for _ in range(max(map(measure, needs), default=-1) + 1)]
    for name, at in depth.items():
        groups[at].append(name)
    return groups


def _is_ready(supervised: _Supervised) -> bool:
    """Whether the last probe found the part ready. Sends the next one when it did not; returns at once."""
    if supervised.probe is None or (supervised.probe.over and not supervised.probe.answer):
        supervised.probe = Probe(supervised.part.command.ready)
        return False
    return supervised.probe.over


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with status {exit_code}"
