"""What decisions should have been, once it is known what came: their regret against perfect foresight.

Perfect foresight knows all requests before they come. It needs no room for growth, so that each replica is filled to what it carries,
and has at each moment the most that is needed until a replica that is created then could serve. It is the offline optimum of Lin, Wierman
et al. ("Dynamic right-sizing for power-proportional data centers", IEEE/ACM ToN 2013) with a cold start in place of a switching cost,
and the oracle of the simulator (`forecasting/simulate/policies/oracle.py`).
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from controlplane.policy.core.record import Record
from controlplane.policy.core.scaling import load_rps, measured_capacity
from forecasting.capacity.pool_capacity import replicas_of

NOT_LOAD = frozenset({"floor", "forecast", "override"})
"""Sources of candidates that do not follow from the load."""
MIN_MS = 120_000
"""Records are written at least each minute."""


class Hindsight(msgspec.Struct, frozen=True):
    """`needed` is what perfect foresight would have had. `regret` is what was wanted less that: replicas too many, or, below 0, too few.
    `at_most`: of what a replica carries only a lower bound is known, so that fewer may have been needed.
    """

    target: str
    wanted: int
    needed: int
    until_ms: int
    at_most: bool = False

    @property
    def regret(self) -> int:
        return self.wanted - self.needed


def horizon_ms(record: Record, target: str) -> int:
    """How far a decision about a target reaches: the P90 of the pool's cold start, and at least two minutes."""
    facts = record.observation.pools.get(target)
    return max(MIN_MS, round((facts.cold_start_s or 0.0) * 1000) if facts else 0)


def hindsight(record: Record, later: Sequence[Record], now_ms: int) -> list[Hindsight]:
    """By target, from the records after it; without those whose time is not over, or in which not all that came is known."""
    judged = []
    for name, target in record.decision.targets.items():
        until_ms = record.decided_at_ms + horizon_ms(record, name)
        within = [each for each in later if record.decided_at_ms < each.decided_at_ms <= until_ms]
        counts = [count for each in (record, *within) if (count := needed(each, name)) is not None]
        if target.wanted is not None and within and len(counts) > len(within) and until_ms <= now_ms:
            at_most = any(needed_at_most(each, name) for each in (record, *within))
            judged.append(Hindsight(name, target.wanted, max(counts), until_ms, at_most))
    return judged


def foreseen(records: Sequence[Record], target: str) -> list[int | None]:
    """What perfect foresight would have had of a target at each of the records, which are by time. Of the newest ones not all is known
    that comes yet. None where nothing is known of the load.
    """
    most: deque[tuple[int, int]] = deque()  # (when, count): later counts that are higher than all before them
    counts: list[int | None] = []
    for record in reversed(records):
        at_ms, count = record.decided_at_ms, needed(record, target)
        while most and most[0][0] > at_ms + horizon_ms(record, target):
            most.popleft()
        if count is not None:
            while most and most[-1][1] <= count:
                most.pop()
            most.append((at_ms, count))
        counts.append(None if count is None else most[0][1])
    return counts[::-1]


def needed(record: Record, target: str) -> int | None:
    """The count that carries the load of that moment, and no less than the owner's floor; where no capacity is known, what the policy's
    signals want. None where the load was not measured then: what is remembered is of before.
    """
    decided, facts = record.decision.targets.get(target), record.observation.pools.get(target)
    memory = record.decision.memory.targets.get(target)
    if decided is None or facts is None or memory is None or memory.load is None:
        return None
    if memory.load.at_ms != record.decided_at_ms:
        return None
    floor = _floor(record, target)
    capacity = measured_capacity(facts)
    if capacity is not None:
        return max(floor, replicas_of(load_rps(facts, memory.load), capacity))
    counts = [each.count for each in decided.candidates if each.source not in NOT_LOAD]
    return max(floor, *counts) if counts else None


def needed_at_most(record: Record, target: str) -> bool:
    """Whether `needed` rests on a lower bound of what a replica carries."""
    facts = record.observation.pools.get(target)
    capacity = None if facts is None else measured_capacity(facts)
    if capacity is None or not capacity.lower_bound:
        return False
    count = needed(record, target)
    return count is not None and count > _floor(record, target)


def _floor(record: Record, target: str) -> int:
    candidates = record.decision.targets[target].candidates
    return max((each.count for each in candidates if each.source == "floor"), default=0)
