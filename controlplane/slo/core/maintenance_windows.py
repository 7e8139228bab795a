"""Maintenance windows: planned times that count for nothing.

Recurring ones are RFC 5545 rules (RRULE) in the wall time of a zone: 02:00 stays 02:00 when clocks change.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache

from dateutil import parser
from dateutil.relativedelta import relativedelta
from dateutil.rrule import rrulestr

from controlplane.slo.core.objective import DIMENSIONS
from controlplane.slo.core.period import SECOND_NS, Span, wall_ns, zone

MAX_S = 31 * 86_400
FREQUENCIES = ("HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
DAY_NS = 86_400 * SECOND_NS


@dataclass(frozen=True)
class MaintenanceWindow:
    """Requests inside it that match `scope` are not counted for `objectives`. Raises ValueError."""

    name: str
    start: datetime  # wall time, naive
    zone: str  # IANA name
    duration_s: int
    rule: str = ""  # RRULE without its DTSTART; empty is once
    scope: Mapping[str, str] = field(default_factory=dict)  # by DIMENSIONS; empty is all traffic
    objectives: frozenset[str] = frozenset()  # slugs; empty is all

    def __hash__(self) -> int:
        return hash((self.name, self.start, self.zone, self.duration_s, self.rule))

    def __post_init__(self) -> None:
        zone(self.zone)
        if not 60 <= self.duration_s <= MAX_S:
            raise ValueError(f"duration_s={self.duration_s} is out of range: use 60 (a minute) to {MAX_S} (31 days)")
        for dimension, value in self.scope.items():
            if dimension not in DIMENSIONS:
                raise ValueError(f"scope={dimension!r} is not a dimension: use {', '.join(DIMENSIONS)}")
            if not isinstance(value, str):
                raise ValueError(f"scope={value!r} is no text: write the value of {dimension} in quotes")  # noqa: TRY004
        if self.rule:
            parts = _parts(self.rule)
            if parts.get("FREQ") not in FREQUENCIES:
                raise ValueError(
                    f"rule={self.rule!r} has no FREQ that is supported: use {', '.join(FREQUENCIES)}, such as FREQ=WEEKLY;BYDAY=SU"
                )
            if not re.fullmatch("0*[1-9][0-9]{0,5}", parts.get("INTERVAL", "1")):
                raise ValueError(
                    f"rule={self.rule!r} has no INTERVAL of 1 or more: use a whole number, or leave it out"
                )
            try:
                rrulestr(self.rule, dtstart=self.start)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(
                    f"rule={self.rule!r} is not an RFC 5545 rule ({error}): write such as FREQ=WEEKLY;BYDAY=SU, UNTIL without Z"
                ) from None

    def occurrences(self, span: Span) -> list[Span]:
        """Those that overlap `span`, in order, uncut."""
        first, last = span.from_ns // DAY_NS, -(-span.to_ns // DAY_NS)
        return [
            occurrence
            for occurrence in _between(self, first, last)
            if occurrence.from_ns < span.to_ns and occurrence.to_ns > span.from_ns
        ]

    def refusal(self, span: Span) -> str:
        """Why its times cannot be computed, such as a date that no calendar has; empty where they can."""
        try:
            _spans(self, span.from_ns // DAY_NS, -(-span.to_ns // DAY_NS))
        except Exception as error:  # noqa: BLE001  (dates and rules are the user's)
            return f"{type(error).__name__}: {error}"
        return ""

    def concerns(self, slug: str) -> bool:
        return not self.objectives or slug in self.objectives

    def covers(self, slug: str, scope: Mapping[str, str]) -> bool:
        """Whether it covers all that an objective counts in `scope`."""
        return self.concerns(slug) and all(scope.get(name) == value for name, value in self.scope.items())


@lru_cache(maxsize=512)
def _between(window: MaintenanceWindow, first_day: int, last_day: int) -> tuple[Span, ...]:
    """Takes days since the epoch, so that calls close in time share an answer."""
    try:
        return _spans(window, first_day, last_day)
    except Exception:  # noqa: BLE001  (`refusal` says why; such a window covers nothing, and stops no evaluation)
        return ()


def _spans(window: MaintenanceWindow, first_day: int, last_day: int) -> tuple[Span, ...]:
    length = timedelta(seconds=window.duration_s)
    starts = [window.start]
    if window.rule:
        low = datetime.fromtimestamp(first_day * 86_400, UTC).replace(tzinfo=None) - length - timedelta(days=1)
        high = datetime.fromtimestamp(last_day * 86_400, UTC).replace(tzinfo=None) + timedelta(days=1)
        starts = [at for year in range(low.year, high.year + 1) for at in _starts(window, year) if low <= at <= high]
    return tuple(Span(at, at + window.duration_s * SECOND_NS) for at in (wall_ns(at, window.zone) for at in starts))


@lru_cache(maxsize=512)
def _starts(window: MaintenanceWindow, year: int) -> tuple[datetime, ...]:
    """Wall times at which occurrences begin in a year.

    dateutil looks for the next date of a rule until the year 9999, and from the rule's start on. The calendar repeats every 400
    years, so the rule is moved to the end of the calendar, and its start close to the year: the search is short at both ends.
    """
    if window.start.year > year:
        return ()
    parts = _parts(window.rule)
    until = parser.parse(parts.pop("UNTIL")) if "UNTIL" in parts else datetime.max
    shift = 0 if "BYEASTER" in parts else max(0, (MAXYEAR - 1 - year) // 400 * 400)
    start = window.start if "COUNT" in parts else _advanced(window.start, parts, year)
    rule = rrulestr(
        ";".join(f"{name}={value}" for name, value in parts.items()), dtstart=start.replace(year=start.year + shift)
    )
    last = datetime(year + shift, 12, 31, 23, 59, 59)
    moved = rule.between(datetime(year + shift, 1, 1), last, inc=True)
    return tuple(at for each in moved if (at := each.replace(year=each.year - shift)) <= until)


def _advanced(start: datetime, parts: dict[str, str], year: int) -> datetime:
    """The rule's start, later by whole intervals, and still at least one interval before the year."""
    unit = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(days=1), "WEEKLY": timedelta(weeks=1)}.get(parts["FREQ"])
    interval = int(parts.get("INTERVAL", "1"))
    if unit is not None:
        steps = (datetime(year, 1, 1) - start) // (unit * interval) - 1
        return start + max(0, steps) * unit * interval
    months = interval * (12 if parts["FREQ"] == "YEARLY" else 1)
    for steps in range(((year - start.year) * 12 - start.month) // months - 1, 0, -1):
        moved: datetime = start + relativedelta(months=steps * months)
        if moved.day == start.day:
            return moved
    return start


def _parts(rule: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in rule.upper().split(";"))
