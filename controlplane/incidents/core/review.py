"""Sums up the incidents of a time, for the handover of a shift and the review of a week.

Times to acknowledge and to resolve are means over pages that were, counted from opening; those that were not are counted beside them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

SHIFT = timedelta(hours=8)
"""Shifts begin at 00:00, 08:00 and 16:00 UTC."""
MAX_NOISY = 10
UNKNOWN_CAUSE = "not known"


@dataclass(frozen=True, slots=True)
class Past:
    """An incident that was open at some time of the range. `bad`: its bad requests at opening, None where the store did not say;
    `shares`: of its burn, by stage; `of`: the slug of its objective, or its component."""

    number: int
    of: str
    name: str
    severity: str
    opened_at: datetime
    acknowledged_at: datetime | None = None
    resolved_at: datetime | None = None
    bad: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Noisy:
    of: str
    name: str
    pages: int
    tickets: int
    open_s: float  # within the range, of all its incidents together


@dataclass(frozen=True, slots=True)
class Cause:
    """A stage, and the bad requests that it is to blame for. `share` is of all bad requests of which the store knows."""

    name: str
    bad: float
    share: float


@dataclass(frozen=True, slots=True)
class Review:
    pages: int
    tickets: int
    resolved: int
    unacknowledged: int  # pages of the range that nobody has acknowledged
    unresolved: int
    mtta_s: float | None
    mttr_s: float | None
    by_shift: Sequence[tuple[datetime, int]]
    noisiest: Sequence[Noisy]
    causes: Sequence[Cause]
    unattributed: int  # incidents of objectives of which the store has not said how many requests were bad

    @property
    def pages_per_shift(self) -> float | None:
        return self.pages / len(self.by_shift) if self.by_shift else None


def review(incidents: Iterable[Past], begins: datetime, ends: datetime) -> Review:
    """Of the incidents that were open at some time in [begins, ends); those that opened in it are counted."""
    among = [
        each for each in incidents if each.opened_at < ends and (each.resolved_at is None or each.resolved_at >= begins)
    ]
    opened = [each for each in among if each.opened_at >= begins]
    pages = [each for each in opened if each.severity == "page"]
    acknowledged = [(each.acknowledged_at - each.opened_at).total_seconds() for each in pages if each.acknowledged_at]
    resolved = [(each.resolved_at - each.opened_at).total_seconds() for each in pages if each.resolved_at]
    return Review(
        pages=len(pages),
        tickets=len(opened) - len(pages),
        resolved=sum(each.resolved_at is not None and each.resolved_at < ends for each in among),
        unacknowledged=len(pages) - len(acknowledged),
        unresolved=len(pages) - len(resolved),
        mtta_s=sum(acknowledged) / len(acknowledged) if acknowledged else None,
        mttr_s=sum(resolved) / len(resolved) if resolved else None,
        by_shift=_by_shift(pages, begins, ends),
        noisiest=_noisiest(among, begins, ends),
        causes=_causes(opened),
        unattributed=sum(each.bad is None for each in opened),
    )


def shift_of(at: datetime) -> datetime:
    """The start of its shift."""
    midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (at - midnight) // SHIFT * SHIFT


def _by_shift(pages: Sequence[Past], begins: datetime, ends: datetime) -> list[tuple[datetime, int]]:
    """How many pages opened in each shift that the range touches."""
    counts = Counter(shift_of(each.opened_at) for each in pages)
    shifts, at = [], shift_of(begins)
    while at < ends:
        shifts.append((at, counts[at]))
        at += SHIFT
    return shifts


def _noisiest(among: Sequence[Past], begins: datetime, ends: datetime) -> list[Noisy]:
    """Those with the most pages first, then those that were open longest."""
    by_key: dict[str, list[Past]] = defaultdict(list)
    for each in among:
        by_key[each.of].append(each)
    noisy = [
        Noisy(
            of,
            members[0].name,
            sum(each.severity == "page" and each.opened_at >= begins for each in members),
            sum(each.severity != "page" and each.opened_at >= begins for each in members),
            sum(
                (min(each.resolved_at or ends, ends) - max(each.opened_at, begins)).total_seconds() for each in members
            ),
        )
        for of, members in by_key.items()
    ]
    return sorted(noisy, key=lambda each: (-each.pages, -each.open_s, each.of))[:MAX_NOISY]


def _causes(opened: Sequence[Past]) -> list[Cause]:
    """Bad requests by the stage that is to blame; what no stage explains is not known."""
    bad: dict[str, float] = defaultdict(float)
    for each in opened:
        if each.bad:
            for stage, share in each.shares.items():
                bad[stage] += each.bad * share
            bad[UNKNOWN_CAUSE] += each.bad * max(0.0, 1 - sum(each.shares.values()))
    whole = sum(bad.values())
    causes = [Cause(name, count, count / whole) for name, count in bad.items() if count > 1e-9 * whole]
    return sorted(causes, key=lambda cause: (-cause.bad, cause.name))
