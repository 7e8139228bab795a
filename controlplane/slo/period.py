"""When an objective's period begins and ends: rolling, or on the calendar of a place. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.relativedelta import relativedelta

from controlplane.slo.objective import Calendar, Rolling

SECOND_NS = 1_000_000_000
_APPROXIMATE_S = {"day": 86_400, "week": 7 * 86_400, "month": 2_629_746, "quarter": 7_889_238, "year": 31_556_952}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}


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
    """The period that holds `at_ns`. A rolling one ends there; a calendar's ends when the next begins. Raises ValueError."""
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


def _starts(period: Calendar, number: int) -> int:
    """Counted from the very first, so that a month begun on the 31st ends on a shorter month's last day, and only there."""
    steps = number * period.count
    if period.unit in _MONTHS:
        return wall_ns(period.start + relativedelta(months=steps * _MONTHS[period.unit]), period.zone)
    return wall_ns(period.start + relativedelta(days=steps * _DAYS[period.unit]), period.zone)


def wall_ns(wall: datetime, zone_name: str) -> int:
    """A wall time of a place as ns since the epoch. Of one that occurs twice the first; one that clocks skip is as far after the skip."""
    return int(wall.replace(tzinfo=zone(zone_name)).astimezone(UTC).timestamp()) * SECOND_NS
