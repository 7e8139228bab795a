"""Maintenance windows: planned times that count for nothing.

Recurring ones are RFC 5545 rules (RRULE) in the wall time of a zone: 02:00 stays 02:00 when clocks change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from dateutil.rrule import rrulestr

from controlplane.slo.core.objective import DIMENSIONS
from controlplane.slo.core.period import SECOND_NS, Span, wall_ns, zone

LONGEST_S = 31 * 86_400
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
        if not 60 <= self.duration_s <= LONGEST_S:
            raise ValueError(
                f"duration_s={self.duration_s} is out of range: use 60 (a minute) to {LONGEST_S} (31 days)"
            )
        for dimension in self.scope:
            if dimension not in DIMENSIONS:
                raise ValueError(f"scope={dimension!r} is not a dimension: use {', '.join(DIMENSIONS)}")
        if self.rule:
            parts = dict(part.partition("=")[::2] for part in self.rule.upper().split(";"))
            if parts.get("FREQ") not in FREQUENCIES:
                raise ValueError(
                    f"rule={self.rule!r} has no FREQ that is supported: use {', '.join(FREQUENCIES)}, such as FREQ=WEEKLY;BYDAY=SU"
                )
            try:
                rrulestr(self.rule, dtstart=self.start)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(
                    f"rule={self.rule!r} is no RFC 5545 rule ({error}): write such as FREQ=WEEKLY;BYDAY=SU, UNTIL without Z"
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
def _between(planned: MaintenanceWindow, first_day: int, last_day: int) -> tuple[Span, ...]:
    """Takes days since the epoch, so that calls close in time share an answer."""
    try:
        return _spans(planned, first_day, last_day)
    except Exception:  # noqa: BLE001  (`refusal` says why; such a window covers nothing, and stops no evaluation)
        return ()


def _spans(planned: MaintenanceWindow, first_day: int, last_day: int) -> tuple[Span, ...]:
    length = timedelta(seconds=planned.duration_s)
    if planned.rule:
        low = datetime.fromtimestamp(first_day * 86_400, UTC).replace(tzinfo=None) - length - timedelta(days=1)
        high = datetime.fromtimestamp(last_day * 86_400, UTC).replace(tzinfo=None) + timedelta(days=1)
        starts = rrulestr(planned.rule, dtstart=planned.start).between(low, high, inc=True)
    else:
        starts = [planned.start]
    return tuple(
        Span(at, at + planned.duration_s * SECOND_NS) for at in (wall_ns(start, planned.zone) for start in starts)
    )
