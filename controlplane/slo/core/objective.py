"""An objective as a plain value. The database, OpenSLO and the API are converted to it before anything is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from controlplane.slo.core.burn import MinimumEvents, error_budget
from controlplane.slo.core.sli import Indicator
from controlplane.slo.core.windows import DAY_S, WORKBOOK, BurnWindow
from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS

SLICES_S = (10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600)
"""Lengths that slices may have, s: whole steps of the finest grid that divide an hour."""
DIMENSIONS = ("model", "variant", "pool", "region", "tier", "tenant", "prompt_bucket")


@dataclass(frozen=True, slots=True)
class Rolling:
    """The last `period_s` seconds, at every moment."""

    period_s: int = 30 * DAY_S


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods of `count` units that follow each other from `start`, with the calendar's months and the zone's days."""

    unit: Literal["day", "week", "month", "quarter", "year"]
    start: datetime  # wall time, naive
    zone: str  # IANA name
    count: int = 1


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Each request is an event."""


@dataclass(frozen=True, slots=True)
class Timeslices:
    """Each slice of `slice_s` is an event: good where at least `slice_target` (0..1) of its requests were."""

    slice_s: int = 60
    slice_target: float = 0.95


@dataclass(frozen=True, slots=True)
class Objective:
    """At least `target` of the requests in `scope` must be good by `indicator`, over the period."""

    slug: str  # its name in URLs, keys and files; never changes
    name: str
    indicator: Indicator
    target: float  # 0..1, exclusive
    scope: Mapping[str, str] = field(default_factory=dict)  # by DIMENSIONS; empty is all traffic
    split_by: tuple[str, ...] = ()  # of DIMENSIONS: each value is judged, and pages, by itself
    period: Rolling | Calendar = field(default_factory=Rolling)
    method: Occurrences | Timeslices = field(default_factory=Occurrences)
    windows: tuple[BurnWindow, ...] = WORKBOOK
    minimum: MinimumEvents = field(default_factory=MinimumEvents)
    owner: str = ""  # the team's name
    runbook: str = ""  # URL
    runbook_text: str = ""  # Markdown, kept here
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    revision: int = 1

    def counted_s(self, length_s: int) -> int:
        """How much a window of `length_s` counts, s: at least one slice, because a slice is counted when it begins."""
        return max(length_s, self.method.slice_s) if isinstance(self.method, Timeslices) else length_s

    def judges(self, scope: Mapping[str, str]) -> bool:
        """Whether the objective, as it is now, is judged in such a scope."""
        return scope.keys() == self.scope.keys() | set(self.split_by) and self.scope.items() <= scope.items()

    def __post_init__(self) -> None:
        error_budget(self.target)
        for dimension in (*self.scope, *self.split_by):
            if dimension not in DIMENSIONS:
                raise ValueError(f"scope or split_by names {dimension!r}: use one of {', '.join(DIMENSIONS)}")
        for dimension, value in self.scope.items():
            if not isinstance(value, str) or len(value) > MAX_VALUE_CHARS:
                raise ValueError(
                    f"scope={dimension}: {str(value)[:50]!r} is not a text of at most {MAX_VALUE_CHARS} characters: give one"
                )
        if twice := set(self.scope) & set(self.split_by):
            raise ValueError(f"split_by={', '.join(sorted(twice))} is in scope too: it has one value there")
