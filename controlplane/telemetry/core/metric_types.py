"""What callers ask of stored metrics and what the store answers: plain values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Operator = Literal["=", "!=", "=~", "!~"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on a label, as in PromQL: an absent label is an empty one, a regular expression (RE2) matches the whole value."""

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
    """A series' samples by time (ns since the Unix epoch); `starts` says since when a counter counts, 0 where nobody said.

    `metrics.stale` tells the values that are gaps.
    """

    info: SeriesInfo
    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Instant:
    """A series' newest value at a time, and how old it was then."""

    info: SeriesInfo
    value: float
    time_ns: int
    age_ns: int


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric by name, and how many series it has or had."""

    metric: str
    kind: str
    unit: str
    series: int


@dataclass(frozen=True, slots=True)
class Newest:
    """A series' newest value in a window and its time; `ended`: a marker came after it, so that it is not its value any more."""

    info: SeriesInfo
    value: float
    time_ns: int
    ended: bool
    samples: int


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target's newest scrape, and since when it has been up or down (as far back as was asked).

    `interval_ns` is about how often it is scraped; None where it was once.
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
    """A target was found up, or down, where the scrape before found the opposite."""

    time_ns: int
    job: str
    instance: str
    up: bool
    error: str
