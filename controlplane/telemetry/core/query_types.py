"""What callers ask of the store and what it answers: plain values, no SQL and no client types.

Durations are milliseconds (float) where people read them and nanoseconds (int) where sums must close.
"""

from dataclasses import dataclass, field
from typing import Literal

from controlplane.telemetry.ledger.row import AT_THE_SERVER, LedgerRow

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
    """None where there are no requests. `e2e_ms` is of the answered ones, and None where there are none of those."""

    requests: int
    errors: int
    e2e_ms: Quantiles | None
    newest_ns: int | None  # end of the newest request
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class StageShare:
    """As in StageFigures."""

    mean_ms: float
    share: float
    share_above_median: float


@dataclass(frozen=True, slots=True)
class Group:
    """The requests with one value of a dimension, and where the time of those that were answered went; without any, None and no stages."""

    requests: int
    errors: int
    e2e_ms: Quantiles | None
    stages: dict[str, StageShare]  # STAGES, plus "unattributed"
    cancelled: int = 0

    @property
    def answered(self) -> int:
        return self.requests - self.errors - self.cancelled


@dataclass(frozen=True, slots=True)
class StageFigures:
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    share: float  # of all time of all answered requests in the window, 0..1; all stages and unattributed sum to 1
    share_above_median: (
        float  # of the time by which requests above the median E2E exceed the middle fifth; may be negative
    )


@dataclass(frozen=True, slots=True)
class LatencyReport:
    """Exact quantiles over the window's answered requests, status `ok`; None where there are none. TTFT is by definition and never merged.

    Failed and cancelled requests are counted, and are in no latency."""

    requests: int  # answered, failed and cancelled
    errors: int
    e2e_ms: Quantiles | None
    ttft_ms: dict[str, Quantiles]
    ttft_count: dict[str, int]
    stages: dict[str, StageFigures]  # STAGES, plus "unattributed"
    newest_ns: int | None  # end of the newest request in it
    cancelled: int = 0
    unmeasured: int = (
        0  # answered, but a server's spans are missing: its queue and the way to it are in `model`, and not known
    )

    @property
    def answered(self) -> int:
        return self.requests - self.errors - self.cancelled

    def known(self, stage: str) -> Literal["measured", "at least", "not measured"]:
        """What a stage's figures are worth: lower bounds where servers' spans are missing, nothing where all are and none was seen."""
        if not self.unmeasured or stage not in AT_THE_SERVER:
            return "measured"
        nothing = self.unmeasured == self.answered and not self.stages[stage].p99_ms
        return "not measured" if nothing else "at least"


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """One step of the chart. `stack_ms[q][stage]` is the mean of the answered requests in a narrow band of ranks around quantile q,
    so a stack's parts add up to real requests' E2E; quantiles of single stages would not add up. Where none was answered, `e2e_ms` is None
    and `stack_ms` empty."""

    start_ns: int
    requests: int
    errors: int
    e2e_ms: Quantiles | None
    ttft_ms: dict[str, Quantiles]
    stack_ms: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # "p50" | "p95" | "p99" -> stage (and "unattributed")
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class RequestPage:
    rows: list[LedgerRow]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """What one value of a dimension did in a window: the overview's row. `p95_ms` is of what was answered."""

    value: str
    requests: int
    errors: int
    p95_ms: float | None
    newest_ns: int | None


@dataclass(frozen=True, slots=True)
class ReplicaHealth(Health):
    """What a replica (`value`) did for one pool: `requests` are the attempts made at it, `errors` those that failed, and `p95_ms` is of
    the attempts that it answered, from their start to their end."""

    pool: str


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the chart that somebody points at: entry times and E2E, both half-open. None leaves a side open."""

    min_e2e_ns: int = 0
    max_e2e_ns: int | None = None
    window: Window | None = None  # within the window that is asked about; None is all of it


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """Answered requests that entered in one step with an E2E of `low_ns <= e2e < high_ns`; cells without any are absent."""

    start_ns: int
    low_ns: int
    high_ns: int | None  # None: the open end
    requests: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Requests that failed for one reason. `status` is `error` or `rejected`; `error_stage` and `error_type` may be empty, and the HTTP
    status None, where the spans did not say."""

    status: str
    error_type: str
    http_status: int | None
    error_stage: str
    requests: int
    p50_ms: float  # until it failed
    newest_ns: int  # end of the newest


HEATMAP_EDGES_NS = (0, *(round(10 ** (5 + step / 10)) for step in range(76)))
"""Lower edges of the heatmap's rows: ten to a decade from 0.1 ms to 53 minutes, one below and an open one above."""
