"""Shapes of the REST API, as its OpenAPI document describes them. Units are in the names: `_ms` is milliseconds, `_ns` nanoseconds."""

from typing import Any, Literal

from ninja import Field, Schema

from controlplane.api.formats import TIME, Attribute, Cursor, Instant, Match, Name
from controlplane.telemetry.core.query_types import Dimension, Order
from controlplane.telemetry.query.core.metric_question import MOST_MATCHES, Shown
from controlplane.telemetry.query.core.question import (
    DEFAULT_FROM,
    DEFAULT_TO,
    MOST_ATTRIBUTES,
    MOST_VALUES,
    Quantile,
)
from controlplane.telemetry.query.core.slow import DEFAULT_ABOVE, LONGEST_MS
from controlplane.telemetry.query.exemplars import MOST as MOST_EXEMPLARS


class Asked(Schema):
    """Which requests: a half-open range of the moments they entered, and filters. Values of one filter are alternatives."""

    from_: Instant = Field(DEFAULT_FROM, alias="from", description=TIME)
    to: Instant = Field(DEFAULT_TO, description=TIME)
    model: list[Name] = Field([], max_length=MOST_VALUES)
    variant: list[Name] = Field([], max_length=MOST_VALUES)
    pool: list[Name] = Field([], max_length=MOST_VALUES)
    replica: list[Name] = Field([], max_length=MOST_VALUES)
    region: list[Name] = Field([], max_length=MOST_VALUES)
    tier: list[Name] = Field([], max_length=MOST_VALUES)
    tenant: list[Name] = Field([], max_length=MOST_VALUES)
    cache: list[Name] = Field([], max_length=MOST_VALUES, description="hit, miss, coalesced, bypass or skipped")
    prompt_bucket: list[Name] = Field(
        [], max_length=MOST_VALUES, description="Prompt length in tokens, such as 512-1023"
    )
    status: list[Name] = Field([], max_length=MOST_VALUES, description="ok, error, cancelled or rejected")
    operation: list[Name] = Field([], max_length=MOST_VALUES)
    service: list[Name] = Field([], max_length=MOST_VALUES)
    attribute: list[Attribute] = Field(
        [],
        max_length=MOST_ATTRIBUTES,
        description="key=value of an attribute that some span of the request has, such as user.id=42; all given must hold",
    )


class AskedLatency(Asked):
    group_by: Dimension | None = Field(
        None, description="Adds `groups`: the same report for each value of a dimension."
    )


class AskedSeries(Asked):
    step_s: int | None = Field(None, ge=1, le=86_400, description="Seconds a point covers; by default about 60 points.")


class AskedExplain(Asked):
    """Which of them are the slow ones: `above` a quantile, or `slower_than_ms`, or a region of the chart."""

    above: Quantile = Field(DEFAULT_ABOVE, description="Those above this quantile of E2E")
    slower_than_ms: float | None = Field(None, ge=0, le=LONGEST_MS, description="Those with at least this E2E")
    e2e_from_ms: float | None = Field(None, ge=0, le=LONGEST_MS, description="Region: E2E of at least")
    e2e_to_ms: float | None = Field(None, ge=0, le=LONGEST_MS, description="Region: E2E below")
    region_from: Instant | None = Field(None, description="Region: entered at or after. " + TIME)
    region_to: Instant | None = Field(None, description="Region: entered before")
    limit: int = Field(10, ge=1, le=50, description="At most so many findings")


class AskedRequests(Asked):
    order: Order = Field("slowest")
    limit: int = Field(50, ge=1, le=1000)
    cursor: Cursor | None = Field(None, description="`next_cursor` of the page before")
    min_ms: float = Field(0, ge=0, le=1e9, description="Only requests whose E2E is at least this")
    max_ms: float | None = Field(None, ge=0, le=1e9, description="Only requests whose E2E is below this")


class AskedTargets(Schema):
    """The range of scrapes: a target that was not tried in it is not there."""

    from_: Instant = Field(DEFAULT_FROM, alias="from", description=TIME)
    to: Instant = Field(DEFAULT_TO, description=TIME)


class AskedSignal(AskedTargets):
    """A metric's series; conditions on labels are joined by and."""

    metric: Name = Field(description="Its name, as it was sent")
    match: list[Match] = Field(
        [],
        max_length=MOST_MATCHES,
        description="`label=value`, `label!=value`, `label=~expression` or `label!~expression`",
    )


class AskedPoints(AskedSignal):
    as_: Shown | None = Field(
        None, alias="as", description="Counters are rates per second, and gauges values, unless given"
    )
    step_s: int | None = Field(
        None, ge=1, le=86_400, description="Least seconds a point covers; it is longer where samples are further apart."
    )


class AskedMetrics(Schema):
    text: Name | None = Field(None, description="Words that the name contains, whatever their case")


class QuantilesOut(Schema):
    p50: float
    p95: float
    p99: float


class TtftOut(QuantilesOut):
    definition: str


class TtftByDefinitionOut(QuantilesOut):
    requests: int


class StageOut(Schema):
    """Null where it was not measured, which is not zero: see `unmeasured`."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    mean_ms: float | None
    share: float | None = Field(
        description="Of all time of all answered requests, 0..1; all stages and `unattributed_share` sum to 1"
    )
    share_above_median: float | None = Field(
        description="Of the time by which requests above the median exceed the median request"
    )


class ReportOut(Schema):
    """Exact quantiles over those of the requests asked for that were answered (status `ok`); null where none was. Unlike definitions of
    TTFT are never merged."""

    requests: int = Field(description="`answered`, `errors` and `cancelled` together")
    answered: int
    errors: int
    cancelled: int
    unmeasured: int = Field(
        description="Answered requests of which a server's spans are missing: their queue and network there are within `model`, "
        "and the figures of these two stages are lower bounds"
    )
    e2e_ms: QuantilesOut | None
    ttft_ms: TtftOut | None = Field(description="Of the most frequent definition")
    ttft_ms_by_definition: dict[str, TtftByDefinitionOut]
    stages: dict[str, StageOut]
    unattributed_share: float | None
    unattributed_share_above_median: float | None
    newest_ns: int | None = Field(description="When the newest of them ended, ns since the epoch")


class FailureOut(Schema):
    """Requests that failed for one reason. `error_type` and `error_stage` may be empty: the spans did not say."""

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
    stack_ms: dict[str, dict[str, float]] = Field(
        description="By quantile, by stage: means of the requests around that quantile, which add up to their E2E"
    )


class SeriesOut(Schema):
    """Points in order of time; steps without requests are absent."""

    from_ns: int
    to_ns: int
    step_ns: int
    points: list[PointOut]


class RegionOut(Schema):
    e2e_from_ms: float
    e2e_to_ms: float | None
    from_ns: int
    to_ns: int


class StageDifferenceOut(Schema):
    stage: str
    ms: float = Field(description="Mean of the chosen less that of the rest; all stages sum to `difference_ms`")
    share: float = Field(description="Of the difference")


class AccountOut(Schema):
    dimension: str
    share: float


class ValueOut(Schema):
    dimension: str
    value: str


class FindingOut(ValueOut):
    """A value that the chosen requests have more often than the rest, and that is slow."""

    share: float = Field(description="Of the difference, that this value's share among the chosen accounts for")
    chosen: int
    rest: int
    chosen_share: float = Field(description="Of the chosen, that have it")
    rest_share: float
    lift: float | None = Field(description="chosen_share / rest_share; null where none of the rest has it")
    stage: str = Field(description="Where the chosen that have it spend most more than the rest")
    stage_ms: float
    trace_ids: list[str]
    same_as: list[ValueOut] = Field(description="Other dimensions' values that are exactly these requests")


class EvidenceOut(Schema):
    what: str
    value: float
    unit: str
    expected: float | None = Field(description="What it would be without the cause; null where nothing says so")


class CauseOut(Schema):
    """A known cause that what was measured shows."""

    name: str
    pool: str
    summary: str
    impact_ms: float = Field(description="About how much each of the pool's requests loses to it, on average")
    cost_ms: float = Field(
        description="The same, of all requests of the pools that were looked at: the order, after `failed`"
    )
    failed: int = Field(description="Requests that failed of it; such causes come first")
    evidence: list[EvidenceOut]
    remedies: list[str] = Field(description="What to do about it")
    url: str = Field(description="Where that is written, on this server")


class ExplainOut(Schema):
    """`nothing` says why where there are no findings; else it is null. `unmeasured`: what no known cause could be concluded from."""

    region: RegionOut
    chosen: int
    rest: int
    chosen_mean_ms: float
    rest_mean_ms: float
    difference_ms: float
    stages: list[StageDifferenceOut]
    dimensions: list[AccountOut]
    findings: list[FindingOut]
    nothing: str | None
    causes: list[CauseOut]
    unmeasured: list[str]


class AttemptOut(Schema):
    """One call to one replica."""

    pool: str
    replica: str
    outcome: str = Field(description="ok, error, or cancelled: nobody waited for it any more")
    error_type: str
    retried: bool = Field(description="Another attempt followed")
    ns: int = Field(description="From its start to its end")
    model_ns: int = Field(description="Of the request's stage `model`")


class RequestOut(Schema):
    """One row of the ledger: `stages` and `unattributed_ns` sum to `e2e_ns`."""

    trace_id: str
    request_id: str
    entry_start_ns: int
    start_ns: int
    end_ns: int
    e2e_ns: int
    stages: dict[str, int]
    unattributed_ns: int
    prefill_ns: int
    decode_ns: int
    ttft_ns: int | None
    ttft_definition: str
    status: str
    http_status: int | None
    error_type: str
    error_stage: str
    operation: str
    service: str
    model: str
    variant: str
    pool: str
    replica: str
    region: str
    tier: str
    tenant: str
    prompt_tokens: int | None
    prompt_bucket: str
    output_tokens: int | None
    cache_outcome: str
    stream: bool
    cold_start: bool
    cost_usd: float | None
    policy_version: int | None
    span_count: int
    adapter: str
    critical_path: list[str]
    attempts: list[AttemptOut] = Field(description="In order; empty where nothing says which replicas were asked")
    unmeasured: bool = Field(
        description="A server's spans are missing: its queue and the network to it are within `model`, and not known"
    )


class RequestsOut(Schema):
    rows: list[RequestOut]
    next_cursor: str | None


class EventOut(Schema):
    time_ns: int
    name: str
    attributes: dict[str, Any]


class SpanOut(Schema):
    span_id: str
    parent_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    service: str
    scope: str
    attributes: dict[str, Any]
    events: list[EventOut]


class SegmentOut(Schema):
    """A stretch of a request's time that belongs to one span and one stage; a request's segments cover it without gap or overlap."""

    span_id: str
    stage: str
    start_ns: int
    end_ns: int


class TracedRequestOut(RequestOut):
    segments: list[SegmentOut]


class TraceOut(Schema):
    trace_id: str
    requests: list[TracedRequestOut]
    span_count: int = Field(description="All spans of the trace. `spans` are the first 10,000 by start")
    spans: list[SpanOut]


class ComponentOut(Schema):
    """Null is "not known", and never zero. `unknown`: never observed; `stale`: observed too long ago, so without figures."""

    component: str
    name: str
    kind: str = Field(description="gateway, cache, telemetry, worker, pool or replica")
    state: str = Field(description="up, degraded, down, stale or unknown")
    rate_per_s: float | None
    errors_per_s: float | None
    p95_ms: float | None
    age_s: float | None = Field(description="Of the observation behind `state`")
    traffic_age_s: float | None = Field(description="Of the newest request that the ledger saw")
    detail: str
    figures: dict[str, float]
    pool: str = Field(description="Of a replica")


class TargetOut(Schema):
    """A target's newest scrape. `stale`: it has not been tried for three of its intervals."""

    job: str
    instance: str
    url: str
    state: Literal["up", "down", "stale"]
    since_ns: int = Field(description="Up or down since, as far back as the range goes")
    scraped_ns: int
    age_s: float
    duration_ms: float
    samples: int
    error: str


class TargetEventOut(Schema):
    time_ns: int
    job: str
    instance: str
    up: bool
    error: str


class TargetsOut(Schema):
    from_ns: int
    to_ns: int
    targets: list[TargetOut]
    events: list[TargetEventOut] = Field(description="When targets went down and came back, the newest first")


class SignalIdentityOut(Schema):
    labels: dict[str, str]
    kind: str = Field(description="counter, gauge or unknown")
    unit: str


class SignalOut(SignalIdentityOut):
    """A series' newest value in the range. `ended`: it is not its value any more."""

    value: float | None = Field(description="Null where it is infinite")
    time_ns: int
    age_s: float
    ended: bool
    samples: int


class SignalsOut(Schema):
    metric: str
    series: list[SignalOut]


class SignalPointOut(Schema):
    start_ns: int
    value: float | None
    resets: int = Field(description="How often the counter began again in this step")


class SignalPointsOut(SignalIdentityOut):
    points: list[SignalPointOut] = Field(description="A step in which nothing was seen is left out")


class ExemplarOut(SignalIdentityOut):
    """A single measurement and the trace in which it was made."""

    metric: str = Field(description="The series it came with; of a histogram's `_count` and `_sum`, its bucket's")
    time_ns: int
    value: float = Field(description="What was measured, in `unit` where that is known")
    trace_id: str = Field(description="32 hexadecimal digits, as `GET traces/{trace_id}` takes them")
    span_id: str | None = Field(description="16 hexadecimal digits; null where it was not sent")


class PointsOut(Schema):
    metric: str
    as_: Shown = Field(alias="as")
    step_s: int
    series: list[SignalPointsOut]
    exemplars: list[ExemplarOut] = Field(
        description=f"At most {MOST_EXEMPLARS}, spread over the range: of each part of it the highest values; the newest first"
    )
    exemplar_count: int = Field(description="How many there are in the range")


class AveragesOut(Schema):
    """Means per request that a Triton itself counts, without any trace; never a quantile. For streams they cover what Triton counts."""

    instance: str
    model: str
    statistic: Literal["average"]
    requests: int
    queue_ms: float
    compute_ms: float = Field(description="Input, inference and output together")
    compute_input_ms: float
    compute_infer_ms: float
    compute_output_ms: float


class ServersOut(Schema):
    servers: list[AveragesOut]


class MetricOut(Schema):
    metric: str
    kind: str
    unit: str
    series: int


class MetricsOut(Schema):
    metrics: list[MetricOut] = Field(description="At most 200, by name")


class StackOut(Schema):
    """Each pool is followed by its replicas."""

    window_s: int = Field(description="Rates and p95 of requests are of the last so many seconds")
    rows: list[ComponentOut]


class ProblemOut(Schema):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: str | None = None
    remedy: str | None = None
