"""Plain values for queries of requests and their results.

Durations are milliseconds (float) for display, and nanoseconds (int) where they must add up exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

AT_THE_SERVER = ("queue", "network")
"""Stages that a server's spans measure in part. Where those spans are missing, that part is within `model`."""

FROM_CACHE = ("hit", "semantic", "coalesced")
"""Outcomes of the cache for requests that were not sent to a replica: the cache, or another request, answered them."""

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
    "policy_rule",
    "degraded",
]
Filter = Dimension | Literal["attribute", "tokens", "not"]
Order = Literal["slowest", "newest"]


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open range of entry times, ns since the Unix epoch: `from_ns <= t < to_ns`."""

    from_ns: int
    to_ns: int


Filters = dict[Filter, tuple[str, ...]]
"""Allowed values by dimension. Values of one dimension are alternatives; dimensions are combined with AND.
`attribute` has any number of `key=value`, each of which some span of the request must have. `not` has any number of `key=value` too, none
of which may hold; the key is a dimension or an attribute. `tokens` has any number of bounds of the prompt's length, such as `>4000`, all of
which hold."""


def excluded(filters: Filters) -> dict[str, tuple[str, ...]]:
    """The values that are not wanted, by dimension or attribute."""
    values: dict[str, tuple[str, ...]] = {}
    for text in filters.get("not", ()):
        key, _, value = text.partition("=")
        values[key] = (*values.get(key, ()), value)
    return values


def filtered_by(filters: Filters) -> set[str]:
    """The dimensions that requests are chosen by, and `attribute` or the attributes that they must not have."""
    return {name for name, values in filters.items() if values and name != "not"} | set(excluded(filters))


@dataclass(frozen=True, slots=True)
class Quantiles:
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Totals:
    """`e2e_ms` is of answered requests, and None without any. Where it is not `exact`, it is within 0.5 %."""

    requests: int
    errors: int
    e2e_ms: Quantiles | None
    newest_ns: int | None  # end of the newest request
    cancelled: int = 0
    exact: bool = True

    @property
    def answered(self) -> int:
        return self.requests - self.errors - self.cancelled


@dataclass(frozen=True, slots=True)
class Cell:
    """The requests of a pair of values of two dimensions. `e2e_ms` as in Totals."""

    row: str
    column: str
    requests: int
    errors: int
    e2e_ms: Quantiles | None


@dataclass(frozen=True, slots=True)
class Cells:
    """The most frequent pairs, and how many others there are, of how many requests."""

    shown: Sequence[Cell]
    others: int
    others_requests: int


@dataclass(frozen=True, slots=True)
class StageShare:
    """As in StageFigures."""

    mean_ms: float
    share: float
    share_above_median: float


@dataclass(frozen=True, slots=True)
class Group:
    """The requests with one value of a dimension. `e2e_ms` and `stages` are of answered requests; None and empty without any."""

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
    """Quantiles over the window's answered requests (status `ok`), None without any. TTFTs of different definitions are not merged.

    Failed and cancelled requests are counted, and have no latency. Where it is not `exact`, times are within 0.5 %, and counts exact.
    """

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
    exact: bool = True

    @property
    def answered(self) -> int:
        return self.requests - self.errors - self.cancelled

    def known(self, stage: str) -> Literal["measured", "at least", "not measured"]:
        """Whether a stage's figures are measured, lower bounds (some servers' spans are missing), or not measured (all are)."""
        if not self.unmeasured or stage not in AT_THE_SERVER:
            return "measured"
        nothing = self.unmeasured == self.answered and not self.stages[stage].p99_ms
        return "not measured" if nothing else "at least"


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """One step of the chart. `stack_ms[q][stage]` is the mean of answered requests in a narrow band of ranks around quantile q, so that
    a stack's parts add up to E2E; quantiles of single stages would not. Without answered requests, `e2e_ms` is None and `stack_ms` empty.
    """

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
class Health:
    """The requests of one value of a dimension in a window: a row of the overview. `p95_ms` is of answered requests."""

    value: str
    requests: int
    errors: int
    p95_ms: float | None
    newest_ns: int | None


@dataclass(frozen=True, slots=True)
class ReplicaHealth(Health):
    """The attempts at a replica (`value`) for one pool: `requests` are all, `errors` the failed ones, and `p95_ms` is the duration of
    those that it answered. `spent_ms` is the duration of all attempts together.
    """

    pool: str
    spent_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What the answers of a model cost that a replica made: `usd` and tokens are of those with a price."""

    model: str
    usd: float
    output_tokens: int
    unpriced: int
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the chart: half-open ranges of entry time and E2E. None leaves a side open."""

    min_e2e_ns: int = 0
    max_e2e_ns: int | None = None
    window: Window | None = None  # within the question's window; None is all of it


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """Answered requests that entered in one step with an E2E of `low_ns <= e2e < high_ns`; cells without any are absent."""

    start_ns: int
    low_ns: int
    high_ns: int | None  # None: the open end
    requests: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Requests that failed for one reason. `status` is `error` or `rejected`. `error_stage` and `error_type` are empty, and the HTTP
    status None, if the spans do not have them.
    """

    status: str
    error_type: str
    http_status: int | None
    error_stage: str
    requests: int
    p50_ms: float  # until it failed
    newest_ns: int  # end of the newest


HEATMAP_EDGES_NS = (0, *(round(10 ** (5 + step / 10)) for step in range(76)))
"""Lower edges of the heatmap's rows: ten to a decade from 0.1 ms to 53 minutes, one below and an open one above."""
