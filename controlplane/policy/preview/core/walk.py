"""Follows a ladder, or failovers, through recorded decisions: what would have been entered when, and for how long."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from controlplane.policy.core.decide import decide, subject_of
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.record import Record
from controlplane.policy.core.spec import InForce, Scaling

MAX_GAP_MS = 300_000
"""Records are at most a minute apart while the controller runs. What was between two that are further apart is not known."""


class Spell(NamedTuple):
    """A tier was on a step, or a failover was active (level 1), for this time."""

    name: str
    level: int
    from_ms: int
    to_ms: int


class Walk:
    """A degradation or routing policy as it would have decided. `see` the records by time."""

    def __init__(self, policy: InForce) -> None:
        self.policy = policy
        self.spells: list[Spell] = []
        self.known_s = 0.0
        self._subject = subject_of(policy.policy)
        self._memory = Memory()
        self._levels: dict[str, int] = {}
        self._begun: Counter[tuple[str, int]] = Counter()
        self._at_ms: int | None = None

    def see(self, record: Record, scaling: Sequence[InForce]) -> None:
        """Decide as in the tick of this record. `scaling` are the policies that scaled pools then: a ladder may ask for `at_most`."""
        seen = record.observation
        if self._subject not in seen.models or (self._at_ms is not None and seen.now_ms < self._at_ms):
            return
        if self._at_ms is not None and seen.now_ms - self._at_ms <= MAX_GAP_MS:
            self.known_s += (seen.now_ms - self._at_ms) / 1_000
            for name, level in self._levels.items():
                if level:
                    self._spend(name, level, self._at_ms, seen.now_ms)
        memory = Memory(targets=record.memory.targets, ladders=self._memory.ladders, failovers=self._memory.failovers)
        observation = structs.replace(seen, pauses=(), overrides=())
        decision = decide(observation, [*scaling, self.policy], memory)
        self._memory, self._at_ms = decision.memory, seen.now_ms
        after = self._after()
        for name, level in after.items():
            for step in range(self._levels.get(name, 0) + 1, level + 1):
                self._begun[name, step] += 1
        self._levels = after

    def entered(self, name: str, level: int = 1) -> int:
        """How often."""
        return self._begun[name, level]

    def seconds(self, name: str, level: int = 1) -> float:
        """For how long, in all. On a higher step the time counts for that one."""
        return sum(each.to_ms - each.from_ms for each in self.spells if each[:2] == (name, level)) / 1_000

    def _after(self) -> dict[str, int]:
        ladders = self._memory.ladders.get(self._subject, {})
        failovers = self._memory.failovers.get(self._subject, {})
        return {name: each.level for name, each in ladders.items()} | {
            name: int(each.active) for name, each in failovers.items()
        }

    def _spend(self, name: str, level: int, from_ms: int, to_ms: int) -> None:
        for at in range(len(self.spells) - 1, max(-1, len(self.spells) - 9), -1):
            if self.spells[at][:2] == (name, level) and self.spells[at].to_ms == from_ms:
                self.spells[at] = self.spells[at]._replace(to_ms=to_ms)
                return
        self.spells.append(Spell(name, level, from_ms, to_ms))


def scaled_by(policies: Iterable[InForce]) -> list[InForce]:
    return [each for each in policies if isinstance(each.policy, Scaling)]


def shares_of_minutes(spells: Iterable[Spell]) -> dict[tuple[str, int], dict[int, float]]:
    """By name and level, the share of each minute since 1970."""
    shares: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for spell in spells:
        for minute in range(spell.from_ms // 60_000, (spell.to_ms - 1) // 60_000 + 1):
            begin, end = max(spell.from_ms, minute * 60_000), min(spell.to_ms, (minute + 1) * 60_000)
            shares[spell.name, spell.level][minute] += (end - begin) / 60_000
    return shares
