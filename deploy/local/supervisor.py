"""Starts parts in the order of their needs, says what happens to them, starts again what dies or hangs, and ends all of it.

Of our own, since the libraries that do such things do others: circus (its last release is from February 2025) and supervisor know no order
by readiness and outlive their parent, honcho ends everything when one part ends. The loop never waits for an answer: each question is asked
in a thread (`watch.py`).
"""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from deploy.local.errors import CannotRunError
from deploy.local.logs import Log
from deploy.local.process import Command, Managed
from deploy.local.watch import Patience, Question, Watch

TICK_S = 0.05
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 60.0  # whoever has lived so long starts with the first pause again
ATTEMPTS = 3  # of a part that has never answered: then something is wrong that waiting will not heal
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Part:
    command: Command
    needs: tuple[str, ...] = ()  # the parts that must have answered once before this one starts
    once: bool = False  # a task of the set-up: ready when it has ended well

    @property
    def name(self) -> str:
        return self.command.name


class State(Enum):
    WAITING = auto()  # for its needs, or for its pause to be over
    STARTING = auto()
    READY = auto()
    ENDING = auto()  # told to end, since it did not become ready


class _Supervised:
    def __init__(self, part: Part, log: Log) -> None:
        self.part = part
        self.log = log
        self.process = Managed(part.command, log.path)
        self.state = State.WAITING
        self.answered = False  # ever
        self.failures = 0  # in a row
        self.not_before = 0.0
        self.since = time.monotonic()  # of the state
        self.question: Question | None = None  # whether it is ready, while it starts
        self.watch: Watch | None = None  # while it is ready, where it has an answer to give


class Supervisor:
    """Runs `parts` until it is told to stop. `say` gets a sentence per event."""

    def __init__(
        self, parts: Sequence[Part], logs: Path, say: Callable[[str], None], patience: Patience | None = None
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._say = say
        self._patience = patience or Patience()
        self._last_round = time.monotonic()
        self._parts = {part.name: _Supervised(part, Log(logs / f"{part.name}.log")) for part in parts}
        self._all_ready = False
        self._stopping = False

    def run(self, when_ready: Callable[[], None]) -> None:
        """Returns after SIGINT, SIGTERM or SIGHUP, with everything ended. Raises CannotRunError when a part will not start."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        try:
            while not self._stopping:
                self._notice_standstill()
                for one in self._parts.values():
                    self._look_after(one)
                if not self._all_ready and all(one.answered for one in self._parts.values()):
                    self._all_ready = True
                    when_ready()
                time.sleep(TICK_S)
        finally:
            self._end_all()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _look_after(self, one: _Supervised) -> None:
        for line in one.log.follow():
            self._say(f"{one.part.name}: {line}")
        now = time.monotonic()
        match one.state:
            case State.WAITING:
                if now >= one.not_before and all(self._parts[need].answered for need in one.part.needs):
                    one.process.start()
                    self._enter(one, State.STARTING)
            case State.STARTING if one.part.once and one.process.exit_code == 0:
                self._ready(one, now)
            case State.READY if one.part.once:
                pass
            case State.STARTING | State.READY if not one.process.alive:
                self._ended(one, now)
            case State.STARTING if not one.part.once and _is_ready(one):
                self._ready(one, now)
            case State.STARTING if now - one.since > one.part.command.start_s:
                self._say(f"{one.part.name} does not answer after {one.part.command.start_s:.0f} s: ending it")
                one.process.terminate()
                self._enter(one, State.ENDING)
            case State.ENDING if not one.process.alive or now - one.since > GRACE_S:
                self._ended(one, now)
            case State.READY if one.watch is not None and one.watch.silent_s(now) > self._patience.silent_s:
                silent_s = self._patience.silent_s
                self._say(f"{one.part.name} has not answered for {silent_s:g} s: ending it and starting it again")
                self._ended(one, now)
            case _:
                pass

    def _enter(self, one: _Supervised, state: State) -> None:
        one.state = state
        one.since = time.monotonic()
        one.question = None
        one.watch = self._watch(one.part) if state is State.READY else None

    def _watch(self, part: Part) -> Watch | None:
        answers = part.command.answers
        return None if answers is None or part.once else Watch(answers, self._patience.ask_every_s)

    def _notice_standstill(self) -> None:
        """Watch anew after this process or the machine stood still: the parts may have stood still as well."""
        now = time.monotonic()
        if now - self._last_round > self._patience.jump_s:
            for one in self._parts.values():
                one.watch = self._watch(one.part) if one.state is State.READY else None
        self._last_round = now

    def _ready(self, one: _Supervised, now: float) -> None:
        again = "again " if one.answered else ""
        word = "done" if one.part.once else "ready"
        self._say(f"{one.part.name} {word} {again}after {now - one.since:.1f} s")
        one.answered = True
        self._enter(one, State.READY)

    def _ended(self, one: _Supervised, now: float) -> None:
        if one.state is State.READY and now - one.since > STEADY_S:
            one.failures = 0
        one.process.kill()  # its children too, which may hold its port or its memory
        how = _how(one.process.exit_code)
        one.failures += 1
        if not one.answered and (one.part.once or one.failures >= ATTEMPTS):
            raise CannotRunError(
                f"{one.part.name} {how} instead of starting; the end of {one.log.path}:\n{one.process.log_tail()}"
            )
        pause_s = min(FIRST_PAUSE_S * 2 ** (one.failures - 1), LONGEST_PAUSE_S)
        self._say(f"{one.part.name} {how}: starting it again in {pause_s:g} s")
        one.not_before = now + pause_s
        self._enter(one, State.WAITING)

    def _end_all(self) -> None:
        """In the opposite order, those that nobody needs first; what is left of a group after its grace is killed."""
        for group in reversed(_groups({name: one.part.needs for name, one in self._parts.items()})):
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


def _is_ready(one: _Supervised) -> bool:
    """Whether the last question was answered with yes. Asks the next one when it was not; returns at once."""
    if one.question is None or (one.question.over and not one.question.answer):
        one.question = Question(one.part.command.ready)
        return False
    return one.question.over


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with status {exit_code}"
