"""Gaps of measurement: times in which gateways ended requests that the ledger has no row of. They are neither good nor bad.

Gateways count by model and tier. Of a scope that is finer, the number of its own requests in a gap is not known.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controlplane.slo.core.period import SECOND_NS, Span

Key = tuple[str, str]
"""A model and a tier."""
MAX_LATE_SHARE = 0.01
"""Gateway and ledger are read at moments that differ a little: so small a share of what gateways counted is no gap."""
SILENT_S = 15.0
"""A gateway's process that ends is known to have counted no more if it was heard so shortly before."""
LOOKBACK_S = 120.0
"""How far back counts are remembered, s: a gap is noticed after it has begun."""
_NEVER_S = float("-inf")
MAX_SHOWN = 5
"""The newest gaps that an evaluation names. It has the sum of all."""


class Process(NamedTuple):
    """A gateway's process: the requests that have ended since its start, by model and tier. Times are s since the epoch."""

    started_s: float
    heard_s: float
    ended: Mapping[Key, int]
    ahead_s: float = 0.0  # how far its clock is ahead of the reader's


@dataclass(frozen=True, slots=True)
class Gap:
    """`requests`: those that were not measured, by model and tier; None where nobody knows how many. `or_more`: those are the least.

    `blinds`: burn windows in it are not known. It is false where nobody is known to have served a request.
    """

    from_s: int
    to_s: int
    why: str
    requests: Mapping[Key, int] | None = None
    lasts: bool = False  # until now
    ended: Mapping[Key, int] | None = None  # what gateways counted; None where nobody knows
    or_more: bool = False
    blinds: bool = True

    def unmeasured(self, scope: Mapping[str, str]) -> int | None:
        """The requests of a scope's model and tier, of which the scope may have fewer."""
        return None if self.requests is None or self.or_more else _of(self.requests, scope)

    def lost_share(self, scope: Mapping[str, str]) -> float:
        """The part of the requests of a scope's model and tier that is known not to be measured; 1 where nothing was."""
        if self.requests is None:
            return 1.0
        lost = _of(self.requests, scope)
        return lost / max(lost, _of(self.ended or {}, scope)) if lost else 0.0


def _of(counts: Mapping[Key, int], scope: Mapping[str, str]) -> int:
    wanted = scope.get("model"), scope.get("tier")
    return sum(
        number
        for key, number in counts.items()
        if all(value in (None, own) for value, own in zip(wanted, key, strict=True))
    )


def gaps_of(gaps: Iterable[Gap], scope: Mapping[str, str]) -> list[Gap]:
    """The gaps that may have requests of a scope."""
    return [gap for gap in gaps if gap.unmeasured(scope) != 0]


def seconds_in(gaps: Iterable[Gap], from_s: int, to_s: int) -> int:
    """How much of a time lies in gaps, which do not overlap, s."""
    return sum(max(0, min(gap.to_s, to_s) - max(gap.from_s, from_s)) for gap in gaps)


def document(gaps: Sequence[Gap], scope: Mapping[str, str], period: Span, at_ns: int) -> dict[str, Any] | None:
    """What was not measured of a period so far, as JSON; None where nothing is missing. A gap that lasts is left out: the state says it."""
    from_s, at_s = period.from_ns // SECOND_NS, at_ns // SECOND_NS
    inside = [gap for gap in gaps if gap.from_s < at_s and gap.to_s > from_s and not gap.lasts]
    if not inside:
        return None
    numbers = [gap.unmeasured(scope) for gap in inside]
    known = [number for number in numbers if number is not None]
    return {
        "seconds": seconds_in(inside, from_s, at_s),
        "requests": sum(known) if len(known) == len(numbers) else None,
        "in_part": any(2 * gap.lost_share(scope) < 1 for gap in inside),
        "of_more": not scope.keys() <= {"model", "tier"},
        "gaps": [
            {"from_s": gap.from_s, "to_s": gap.to_s, "why": gap.why, "requests": number}
            for gap, number in list(zip(inside, numbers, strict=True))[-MAX_SHOWN:][::-1]
        ],
        "others": max(0, len(inside) - MAX_SHOWN),
    }


def missing(ended: Mapping[Key, int], measured: Mapping[Key, int]) -> dict[Key, int]:
    """What gateways counted and the ledger has no row of."""
    lost = {key: number - measured.get(key, 0) for key, number in ended.items()}
    return {key: number for key, number in lost.items() if number > MAX_LATE_SHARE * ended[key]}


@dataclass
class Ended:
    """Adds up what gateways have counted since the first look, whichever of them restart. What one counts while it is silent is left out:
    nobody knows when it was.
    """

    sums: dict[Key, int] = field(default_factory=dict)
    lost_s: float = _NEVER_S  # when counts were last lost, s since the epoch
    _heard: bool = False  # any process, ever
    _known: Mapping[str, Process] = field(default_factory=dict)
    # Each look's time and sums, and `lost_s` as it was then.
    _looks: deque[tuple[float, dict[Key, int], float]] = field(default_factory=deque)

    def look(self, now_s: float, processes: Mapping[str, Process]) -> None:
        """Add what processes have counted since the last look. Where none could be heard yet, because who looks, or all of them, have only
        just begun, nothing was lost, and this is the first look.
        """
        if processes and not self._heard:
            self._heard = True
            first_s = min(process.started_s for process in processes.values())
            if self._looks and (now_s - self._looks[0][0] <= SILENT_S or first_s >= self._looks[-1][0] - SILENT_S):
                self._looks.clear()
                self.lost_s = _NEVER_S
        before_s = self._looks[-1][0] if self._looks else None
        sums = dict(self.sums)
        for name, process in processes.items():
            known = self._known.get(name)
            if known is None and (before_s is None or process.started_s < before_s - SILENT_S):
                if before_s is not None and any(process.ended.values()):  # it has served before, and nobody heard it
                    self.lost_s = now_s
                continue
            if known is not None and before_s is not None and before_s - known.heard_s > SILENT_S:
                continue
            for key, number in process.ended.items():
                sums[key] = sums.get(key, 0) + max(0, number - (known.ended.get(key, 0) if known else 0))
        left = [process for name, process in self._known.items() if name not in processes]
        if not processes or any(now_s - process.heard_s > SILENT_S for process in [*left, *processes.values()]):
            self.lost_s = now_s
        self.sums, self._known = sums, processes
        self._looks.append((now_s, sums, self.lost_s))
        while len(self._looks) > 1 and self._looks[1][0] <= now_s - LOOKBACK_S:
            self._looks.popleft()

    def until(self, at_s: float) -> tuple[float, dict[Key, int]]:
        """The last look before a time of the last LOOKBACK_S, with its sums; the oldest that is known for an earlier time."""
        return self._until(at_s)[:2]

    def was_lost(self, from_s: float, to_s: float) -> bool:
        """Whether counts were lost in a time that ended within the last LOOKBACK_S."""
        return self._until(to_s)[2] >= from_s

    def _until(self, at_s: float) -> tuple[float, dict[Key, int], float]:
        return next((look for look in reversed(self._looks) if look[0] <= at_s), self._looks[0])

    def since(self, from_s: float, base: Mapping[Key, int]) -> dict[Key, int] | None:
        """The growth since the sums were `base`, at `from_s`; None where counts were lost since."""
        if self.lost_s >= from_s:
            return None
        return {key: grown for key, number in self.sums.items() if (grown := number - base.get(key, 0))}
