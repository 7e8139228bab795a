"""Service level indicators, judged on each request from its ledger row, so that a threshold needs no bucket edge.

A request is good, bad, or not counted (None):

- a request that the tenant's own rate limit refused is not counted; one that a full queue refused is bad;
- a request whose client left before the threshold is not counted; one whose client waited longer is bad;
- a request that failed is bad for availability, and not counted for latency or cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.telemetry.ledger.row import RATE_LIMITED, LedgerRow
from inference.contract.stages import STAGES

NS_PER_MS = 1_000_000
Measure = Literal["ttft", "itl", "e2e"]
MEASURES: tuple[Measure, ...] = ("ttft", "itl", "e2e")


@dataclass(frozen=True, slots=True)
class Availability:
    """The request was answered."""

    def good(self, row: LedgerRow) -> bool | None:
        if row.status == "cancelled" or row.error_type == RATE_LIMITED:
            return None
        return row.status == "ok"


@dataclass(frozen=True, slots=True)
class Latency:
    """`measure` is at most `threshold_ms`: TTFT (of one definition, never mixed), mean gap between tokens, the whole, or a stage."""

    measure: str  # one of MEASURES, or of STAGES
    threshold_ms: float
    ttft_definition: str = "gateway"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES and self.measure not in STAGES:
            raise ValueError(f"measure={self.measure!r} is not one of {', '.join((*MEASURES, *STAGES))}")
        if not self.threshold_ms > 0:
            raise ValueError(f"threshold_ms={self.threshold_ms} is not above 0")

    def good(self, row: LedgerRow) -> bool | None:
        if row.status == "cancelled":
            return self._abandoned(row)
        measured_ns = self._measured_ns(row) if row.status == "ok" else None
        return None if measured_ns is None else measured_ns <= self.threshold_ms * NS_PER_MS

    def _abandoned(self, row: LedgerRow) -> bool | None:
        """The wait is a lower bound: above the threshold the request is bad, below it is not counted."""
        waited_ns = self._measured_ns(row)
        if self.measure == "ttft" and row.ttft_ns is None:
            waited_ns = row.e2e_ns
        return False if waited_ns is not None and waited_ns > self.threshold_ms * NS_PER_MS else None

    def _measured_ns(self, row: LedgerRow) -> float | None:
        if self.measure == "e2e":
            return row.e2e_ns
        if self.measure == "ttft":
            return row.ttft_ns if row.ttft_definition == self.ttft_definition else None
        if self.measure == "itl":
            gaps = (row.output_tokens or 0) - 1
            return row.decode_ns / gaps if gaps > 0 else None
        return row.stages[self.measure]


@dataclass(frozen=True, slots=True)
class Cost:
    """The answer's tokens cost at most this. A request without a known cost or without tokens is not counted."""

    usd_per_1k_tokens: float

    def __post_init__(self) -> None:
        if not self.usd_per_1k_tokens > 0:
            raise ValueError(f"usd_per_1k_tokens={self.usd_per_1k_tokens} is not above 0")

    def good(self, row: LedgerRow) -> bool | None:
        tokens = (row.prompt_tokens or 0) + (row.output_tokens or 0)
        if row.status != "ok" or row.cost_usd is None or tokens == 0:
            return None
        return row.cost_usd / tokens * 1_000 <= self.usd_per_1k_tokens


@dataclass(frozen=True, slots=True)
class Histogram:
    """An observation of a stored histogram is at most `threshold`, in the metric's own unit: for servers that send no spans.

    `threshold` must be a bound of its buckets; `evaluate.bucket_edges` refuses others.
    """

    metric: str  # without _bucket
    threshold: float
    labels: Mapping[str, str] = field(default_factory=dict)  # all of them must be equal

    def __post_init__(self) -> None:
        if not self.metric:
            raise ValueError("metric='' is empty: name a histogram, such as vllm:time_to_first_token_seconds")
        if self.metric.endswith(("_bucket", "_count", "_sum")):
            raise ValueError(
                f"metric={self.metric!r} is a part of a histogram: leave {self.metric[self.metric.rindex('_') :]} out"
            )
        if not math.isfinite(self.threshold):
            raise ValueError(f"metric_threshold={self.threshold} is not finite: use one of the histogram's bounds")

    def good(self, row: LedgerRow) -> bool | None:
        """Requests have no part in it: it is judged from the growth of buckets."""
        return None


Indicator = Availability | Latency | Cost | Histogram
