"""When an objective's period begins and ends: rolling, or on the calendar of a time zone."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.relativedelta import relativedelta

from controlplane.slo.core.objective import SLICES_S, Calendar, Objective, Rolling, Timeslices
from controlplane.slo.core.windows import DAY_S, HOUR_S

SECOND_NS = 1_000_000_000
_APPROXIMATE_S = {"day": 86_400, "week": 7 * 86_400, "month": 2_629_746, "quarter": 7_889_238, "year": 31_556_952}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_MAX_S = {"day": DAY_S, "week": 7 * DAY_S, "month": 31 * DAY_S, "quarter": 92 * DAY_S, "year": 366 * DAY_S}
MAX_PERIOD_S = 395 * DAY_S
"""Counts are kept for 13 months."""


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open, ns since the Unix epoch."""

    from_ns: int
    to_ns: int

    @property
    def length_s(self) -> int:
        return (self.to_ns - self.from_ns) // SECOND_NS


def zone(name: str) -> ZoneInfo:
    """Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"zone={name!r} is not a time zone: use an IANA name, such as Europe/Berlin") from None


def period_at(period: Rolling | Calendar, at_ns: int) -> Span:
    """The period that contains `at_ns`. A rolling period ends there, a calendar's when the next begins. Raises ValueError."""
    if isinstance(period, Rolling):
        return Span(at_ns - period.period_s * SECOND_NS, at_ns)
    if period.count < 1:
        raise ValueError(f"calendar_count={period.count} is below 1: use 1 for every {period.unit}")
    number = int(
        (at_ns / SECOND_NS - wall_ns(period.start, period.zone) / SECOND_NS)
        // (_APPROXIMATE_S[period.unit] * period.count)
    )
    while _starts(period, number) > at_ns:
        number -= 1
    while _starts(period, number + 1) <= at_ns:
        number += 1
    return Span(_starts(period, number), _starts(period, number + 1))


def longest_s(period: Rolling | Calendar) -> int:
    """The length of the longest period, s: months have 31 days. Changes of clocks are not included."""
    return period.period_s if isinstance(period, Rolling) else period.count * _MAX_S[period.unit]


def horizon_s(objective: Objective) -> int:
    """How far back counts are needed, s. Clocks that are set back make a period an hour longer."""
    lengths = [objective.counted_s(window.long_s) for window in objective.windows]
    return max(longest_s(objective.period) + HOUR_S, *lengths, HOUR_S) + HOUR_S


def check(objective: Objective) -> None:
    """Raises ValueError where periods or windows cannot be judged; it names the field, the value and the remedy."""
    if isinstance(objective.period, Calendar) and objective.period.unit not in _MAX_S:
        raise ValueError(f"calendar_unit={objective.period.unit!r} is unknown: use {', '.join(_MAX_S)}")
    length_s = longest_s(objective.period)
    period_at(objective.period, 0)
    if length_s > MAX_PERIOD_S:
        field = "period_s" if isinstance(objective.period, Rolling) else "calendar_count"
        value = length_s if isinstance(objective.period, Rolling) else objective.period.count
        raise ValueError(f"{field}={value} is too long a period: use at most 13 months, for which counts are kept")
    if isinstance(method := objective.method, Timeslices):
        if method.slice_s not in SLICES_S:
            raise ValueError(
                f"slice_s={method.slice_s} does not fit an hour: use one of {', '.join(map(str, SLICES_S))}"
            )
        if not 0 < method.slice_target <= 1:
            raise ValueError(f"slice_target={method.slice_target} is not above 0 and at most 1: use 0.95 for 95 %")
    if not objective.windows:
        raise ValueError("windows=[] is empty: give at least one burn window")
    for window in objective.windows:
        if window.long_s > length_s:
            raise ValueError(
                f"period_s={length_s} is shorter than the window of {window.long_s} s: use shorter windows"
            )


@lru_cache(maxsize=2048)
def _starts(period: Calendar, number: int) -> int:
    """When a period begins, ns. Counted from the first one, so that a month begun on the 31st only ends early in shorter months."""
    steps = number * period.count
    if period.unit in _MONTHS:
        return wall_ns(period.start + relativedelta(months=steps * _MONTHS[period.unit]), period.zone)
    return wall_ns(period.start + relativedelta(days=steps * _DAYS[period.unit]), period.zone)


def wall_ns(wall: datetime, zone_name: str) -> int:
    """A wall time as ns since the epoch: the first of two where clocks are set back; as far after the gap where they skip it."""
    return int(wall.replace(tzinfo=zone(zone_name)).astimezone(UTC).timestamp()) * SECOND_NS
