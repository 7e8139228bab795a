"""Shapes of latency. Units are in the names: `_ms` is milliseconds, `_ns` nanoseconds."""

from ninja import Field, Schema

from controlplane.api.formats import Rounded
from controlplane.api.schemas.filters import RequestFilters
from controlplane.telemetry.core.query_types import Dimension


class LatencyParameters(RequestFilters):
    group_by: Dimension | None = Field(
        None,
        description="Adds `groups`, a report for each value of a dimension. By `replica`: that of the last attempt.",
    )


class SeriesParameters(RequestFilters):
    step_s: int | None = Field(None, ge=1, le=86_400, description="Seconds a point covers; by default about 60 points.")


class QuantilesOut(Schema):
    p50: Rounded
    p95: Rounded
    p99: Rounded


class TtftOut(QuantilesOut):
    definition: str


class TtftByDefinitionOut(QuantilesOut):
    requests: int


class StageOut(Schema):
    """Figures are null where nothing of the stage was measured, which is not zero: see `unmeasured`."""

    p50_ms: Rounded | None
    p95_ms: Rounded | None
    p99_ms: Rounded | None
    mean_ms: Rounded | None
    share: Rounded | None = Field(
        description="Of all time of all answered requests, 0..1; all stages and `unattributed_share` sum to 1"
    )
    share_above_median: Rounded | None = Field(
        description="Of the time by which requests above the median exceed the median request"
    )
    lower_bound: bool = Field(
        description="Whether the times and `share` are lower bounds: the part at servers whose spans are missing was not measured, and "
        "counts for `model`. `share_above_median` is then that of the measured part"
    )


class ReportOut(Schema):
    """Quantiles over the chosen requests that were answered (status `ok`); null where none was. Different definitions of TTFT
    are never merged."""

    requests: int = Field(description="`answered`, `errors` and `cancelled` together")
    answered: int
    errors: int
    cancelled: int
    unmeasured: int = Field(
        description="Answered requests of which a server's spans are missing: their queue and network times are part of `model`, "
        "and the figures of these two stages are lower bounds (`lower_bound`) or null"
    )
    e2e_ms: QuantilesOut | None
    ttft_ms: TtftOut | None = Field(description="Of the most frequent definition")
    ttft_ms_by_definition: dict[str, TtftByDefinitionOut]
    stages: dict[str, StageOut]
    unattributed_share: Rounded | None
    unattributed_share_above_median: Rounded | None
    newest_ns: int | None = Field(description="When the newest of them ended, ns since the epoch")
    exact: bool = Field(
        description="Whether times are exact. Ranges of more than 6 hours are answered out of rollups: times are within 0.5 %, counts exact"
    )


class FailureOut(Schema):
    """Requests that failed for one reason. `error_type` and `error_stage` are empty where the spans do not have them."""

    status: str = Field(description="error or rejected")
    error_type: str
    http_status: int | None
    error_stage: str
    requests: int
    p50_ms: float = Field(description="Median time until they failed")
    newest_ns: int = Field(description="When the newest of them ended, ns since the epoch")


class LatencyOut(ReportOut):
    from_ns: int
    to_ns: int
    failures: list[FailureOut] = Field(description="Why requests failed, the most frequent reason first; at most 50")
    group_by: str | None = None
    groups: dict[str, ReportOut] | None = None


class PointOut(Schema):
    start_ns: int
    requests: int
    errors: int
    cancelled: int
    e2e_ms: QuantilesOut | None = Field(description="Of the answered requests; null where none was")
    ttft_ms: dict[str, QuantilesOut]
    stack_ms: dict[str, dict[str, Rounded]] = Field(
        description="By quantile, by stage: means of the requests around that quantile, which add up to their E2E"
    )


class SeriesOut(Schema):
    """Points in order of time; steps without requests are absent."""

    from_ns: int
    to_ns: int
    step_ns: int
    exact: bool = Field(description="As of a report")
    points: list[PointOut]
