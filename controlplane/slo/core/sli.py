"""Service level indicators. The store judges each request by its ledger row (`count_plan.cut`), so that a threshold needs no bucket edge.

A request is good, bad, or not counted (None):

- a request that the tenant's own rate limit refused is not counted; one that a full queue refused is bad;
- a request that was wrong itself (400, 401, 404, 413, …) is not counted, unless the objective says that it is bad;
- a request whose client left before the threshold is not counted; one whose client waited longer is bad;
- a request that failed is bad for availability, and not counted for latency or cost;
- a request without spans of its server is not counted for the stages that only they tell.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from inference.contract.stages import STAGES

Measure = Literal["ttft", "itl", "e2e"]
MEASURES: tuple[Measure, ...] = ("ttft", "itl", "e2e")


@dataclass(frozen=True, slots=True)
class Availability:
    """The request was answered. With `count_client_errors`, a client's own mistake is bad too: by default it is not counted."""

    count_client_errors: bool = False


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


@dataclass(frozen=True, slots=True)
class Cost:
    """The answer's tokens cost at most this. A request without a known cost or without tokens is not counted."""

    usd_per_1k_tokens: float

    def __post_init__(self) -> None:
        if not self.usd_per_1k_tokens > 0:
            raise ValueError(f"usd_per_1k_tokens={self.usd_per_1k_tokens} is not above 0")


@dataclass(frozen=True, slots=True)
class Histogram:
    """An observation of a stored histogram is at most `threshold`, in the metric's own unit: for servers that send no spans.

    `threshold` must be a bound of its buckets; `bucket_edges` refuses others.
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


Indicator = Availability | Latency | Cost | Histogram
