"""An objective as a plain value: what the database, OpenSLO and the API are turned into before anything judges it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from controlplane.slo.burn import MinimumEvents, error_budget
from controlplane.slo.sli import Indicator
from controlplane.slo.windows import DAY_S, WORKBOOK, BurnWindow

DIMENSIONS = ("model", "variant", "pool", "region", "tier", "tenant", "prompt_bucket")


@dataclass(frozen=True, slots=True)
class Rolling:
    """The last `period_s` seconds, at every moment."""

    period_s: int = 30 * DAY_S


@dataclass(frozen=True, slots=True)
class Calendar:
    """`count` units from `start` on, again and again: months and quarters have the lengths they have, days those of their zone."""

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
    """A promise: at least `target` of the requests in `scope` are good by `indicator`, over the period."""

    slug: str  # its name in URLs, keys and files; never changes
    name: str
    indicator: Indicator
    target: float  # 0..1, exclusive
    scope: Mapping[str, str] = field(default_factory=dict)  # by DIMENSIONS; empty is all traffic
    split_by: tuple[str, ...] = ()  # of DIMENSIONS: judged, and paged, for each value by itself
    period: Rolling | Calendar = field(default_factory=Rolling)
    method: Occurrences | Timeslices = field(default_factory=Occurrences)
    windows: tuple[BurnWindow, ...] = WORKBOOK
    minimum: MinimumEvents = field(default_factory=MinimumEvents)
    owner: str = ""  # the team's name
    runbook: str = ""  # URL
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    revision: int = 1

    def judges(self, scope: Mapping[str, str]) -> bool:
        """Whether such a scope is one that it may be judged in, as it is now."""
        return scope.keys() == self.scope.keys() | set(self.split_by) and self.scope.items() <= scope.items()

    def __post_init__(self) -> None:
        error_budget(self.target)
        for dimension in (*self.scope, *self.split_by):
            if dimension not in DIMENSIONS:
                raise ValueError(f"scope or split_by names {dimension!r}: use one of {', '.join(DIMENSIONS)}")
        if twice := set(self.scope) & set(self.split_by):
            raise ValueError(f"split_by={', '.join(sorted(twice))} is in scope too: it has one value there")
