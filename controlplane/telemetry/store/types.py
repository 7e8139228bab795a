"""What callers ask of the store and what it answers: plain values, no SQL and no client types.

Durations are milliseconds (float) where people read them and nanoseconds (int) where sums must close.
"""

from dataclasses import dataclass, field
from typing import Literal

from controlplane.telemetry.ledger.row import LedgerRow

Dimension = Literal[
    "model",
    "variant",
    "pool",
    "replica",
    "region",
    "tier",
    "tenant",
    "cache",
    "prompt_bucket",
    "status",
    "operation",
    "service",
]
Filter = Dimension | Literal["attribute"]
Order = Literal["slowest", "newest"]


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open range of entry times, ns since the Unix epoch: `from_ns <= t < to_ns`."""

    from_ns: int
    to_ns: int


Filters = dict[Filter, tuple[str, ...]]
"""Allowed values by dimension; values of one dimension are alternatives, dimensions are combined with AND.
`attribute` has any number of `key=value`, all of which some span of the request must have."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Totals:
    """None where there are no requests."""

    requests: int
    errors: int
    e2e_ms: Quantiles | None
    newest_ns: int | None  # end of the newest request


@dataclass(frozen=True, slots=True)
class StageShare:
    """As in StageFigures."""

    mean_ms: float
    share: float
    share_above_median: float


@dataclass(frozen=True, slots=True)
class Group:
    """The requests with one value of a dimension, and where their time went."""

    requests: int
    errors: int
    e2e_ms: Quantiles
    stages: dict[str, StageShare]  # STAGES, plus "unattributed"


@dataclass(frozen=True, slots=True)
class StageFigures:
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    share: float  # of all time of all requests in the window, 0..1; all stages and unattributed sum to 1
    share_above_median: (
        float  # of the time by which requests above the median E2E exceed the middle fifth; may be negative
    )


@dataclass(frozen=True, slots=True)
class LatencyReport:
    """Exact quantiles over the window's rows. None where there are no requests. TTFT is by definition and never merged."""

    requests: int
    errors: int
    e2e_ms: Quantiles | None
    ttft_ms: dict[str, Quantiles]
    ttft_count: dict[str, int]
    stages: dict[str, StageFigures]  # STAGES, plus "unattributed"
    newest_ns: int | None  # end of the newest request in it


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """One step of the chart. `stack_ms[q][stage]` is the mean of the requests in a narrow band of ranks around quantile q,
    so a stack's parts add up to real requests' E2E; quantiles of single stages would not add up."""

    start_ns: int
    requests: int
    errors: int
    e2e_ms: Quantiles
    ttft_ms: dict[str, Quantiles]
    stack_ms: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # "p50" | "p95" | "p99" -> stage (and "unattributed")


@dataclass(frozen=True, slots=True)
class RequestPage:
    rows: list[LedgerRow]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """What one value of a dimension did in a window: the overview's row."""

    value: str
    requests: int
    errors: int
    p95_ms: float | None
    newest_ns: int | None


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the chart that somebody points at: entry times and E2E, both half-open. None leaves a side open."""

    min_e2e_ns: int = 0
    max_e2e_ns: int | None = None
    window: Window | None = None  # within the window that is asked about; None is all of it


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """Requests that entered in one step with an E2E of `low_ns <= e2e < high_ns`; cells without any are absent."""

    start_ns: int
    low_ns: int
    high_ns: int | None  # None: the open end
    requests: int
    errors: int
