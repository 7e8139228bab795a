"""Plain values for queries of stored metrics and their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Operator = Literal["=", "!=", "=~", "!~"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on a label, as in PromQL: an absent label is empty, and a regular expression (RE2) matches the whole value."""

    label: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """`kind` is `counter`, `gauge` or `unknown`; a `delta` series holds increments."""

    series: int
    metric: str
    labels: Mapping[str, str]
    kind: str
    unit: str
    delta: bool


@dataclass(frozen=True, slots=True)
class SampleSeries:
    """A series' samples by time, ns since the Unix epoch. `starts` is when a counter began to count, 0 where that is not known.

    `metrics.core.stale` recognises the values that mark a gap.
    """

    info: SeriesInfo
    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class RolledSeries:
    """A gauge's samples added up by step: the steps that have some start at `starts`, ns since the Unix epoch."""

    series: int
    starts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    most: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric by name, and how many series it has had."""

    metric: str
    kind: str
    unit: str
    series: int


@dataclass(frozen=True, slots=True)
class Newest:
    """A series' newest value in a window, and its time. `ended`: a stale marker came after it, so the value no longer holds."""

    info: SeriesInfo
    value: float
    time_ns: int
    ended: bool
    samples: int


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target's newest scrape, and since when it has been up or down within the window.

    `interval_ns` is the approximate time between scrapes; None where there was only one.
    """

    job: str
    instance: str
    url: str
    up: bool
    since_ns: int
    time_ns: int
    duration_ns: int
    samples: int
    error: str
    interval_ns: int | None = None


@dataclass(frozen=True, slots=True)
class TargetEvent:
    """A target that went up or down between two scrapes."""

    time_ns: int
    job: str
    instance: str
    up: bool
    error: str
