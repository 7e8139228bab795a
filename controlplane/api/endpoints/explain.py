"""`GET explain`: compares the slow requests with the others."""

import time
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from controlplane.api.filters import RequestFilters, question_of
from controlplane.api.formats import TIME, Instant, NsAsMs, Rounded
from controlplane.serving_stack import pools_served
from controlplane.telemetry.explain.difference import Finding, nothing
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.causes import PoolCause, causes_of
from controlplane.telemetry.query.core.question import Quantile
from controlplane.telemetry.query.core.slow import DEFAULT_ABOVE, MAX_MS, parse_slow
from controlplane.telemetry.query.remedies import remedies

router = Router(tags=["explain"])
SAME = ("one_in", "chosen", "rest", "stages", "dimensions", "findings")
"""What an explanation is answered with as it is."""


class ExplainParameters(RequestFilters):
    """Which of them are the slow ones: `above` a quantile, or `slower_than_ms`, or a region of the chart."""

    above: Quantile = Field(DEFAULT_ABOVE, description="Those above this quantile of E2E")
    slower_than_ms: float | None = Field(None, ge=0, le=MAX_MS, description="Those with at least this E2E")
    e2e_from_ms: float | None = Field(None, ge=0, le=MAX_MS, description="Region: E2E of at least")
    e2e_to_ms: float | None = Field(None, ge=0, le=MAX_MS, description="Region: E2E below")
    region_from: Instant | None = Field(None, description="Region: entered at or after. " + TIME)
    region_to: Instant | None = Field(None, description="Region: entered before")
    limit: int = Field(10, ge=1, le=50, description="At most so many findings")


class RegionOut(Schema):
    e2e_from_ms: float
    e2e_to_ms: float | None
    from_ns: int
    to_ns: int


class StageDifferenceOut(Schema):
    stage: str
    ms: NsAsMs = Field(
        validation_alias="ns", description="Mean of the chosen less that of the rest; all stages sum to `difference_ms`"
    )
    share: Rounded = Field(description="Of the difference")


class AccountOut(Schema):
    dimension: str
    share: Rounded


class ValueOut(Schema):
    dimension: str
    value: str


class FindingOut(ValueOut):
    """A value that the chosen requests have more often than the rest, and that is slow."""

    share: Rounded = Field(
        validation_alias="accounts_for", description="Of the difference, what this value accounts for"
    )
    chosen: int
    rest: int
    chosen_share: Rounded = Field(description="Of the chosen, that have it")
    rest_share: Rounded
    lift: Rounded | None = Field(description="chosen_share / rest_share; null where none of the rest has it")
    stage: str = Field(description="Where the chosen that have it spend most more than the rest")
    stage_ms: NsAsMs = Field(validation_alias="stage_ns")
    trace_ids: list[str] = Field(validation_alias="exemplars")
    same_as: list[ValueOut] = Field(description="Other dimensions' values that are exactly these requests")

    @staticmethod
    def resolve_same_as(finding: Finding) -> list[dict[str, str]]:
        return [{"dimension": dimension, "value": value} for dimension, value in finding.same_as]


class EvidenceOut(Schema):
    what: str
    value: float
    unit: str
    expected: float | None = Field(description="What it would be without the cause; null where it is not known")


class CauseOut(Schema):
    """A known cause that what was measured shows."""

    name: str = Field(validation_alias="cause.name")
    pool: str
    summary: str = Field(validation_alias="cause.summary")
    impact_ms: Rounded = Field(
        validation_alias="cause.impact_ms",
        description="About how much each of the pool's requests loses to it, on average",
    )
    cost_ms: Rounded = Field(description="Of all requests of all pools; causes are in this order, after `failed`")
    failed: int = Field(
        validation_alias="cause.failed", description="Requests that failed because of it; such causes come first"
    )
    evidence: list[EvidenceOut] = Field(validation_alias="cause.evidence")
    remedies: list[str] = Field(description="What to do about it")
    url: str = Field(description="Its description, on this server")

    @staticmethod
    def resolve_remedies(shown: PoolCause) -> tuple[str, ...]:
        return remedies()[shown.cause.name].steps

    @staticmethod
    def resolve_url(shown: PoolCause) -> str:
        return f"{reverse('causes')}#{shown.cause.name}"


class ExplainOut(Schema):
    """`nothing` says why there are no findings; null where there are some. `unmeasured` lists figures that known causes need and that
    were not measured."""

    region: RegionOut
    one_in: int = Field(
        description="Figures are of a sample of one request in so many; 1: of all. Counts are not scaled up"
    )
    chosen: int
    rest: int
    chosen_mean_ms: NsAsMs
    rest_mean_ms: NsAsMs
    difference_ms: NsAsMs
    stages: list[StageDifferenceOut]
    dimensions: list[AccountOut]
    findings: list[FindingOut]
    nothing: str | None
    causes: list[CauseOut]
    causes_one_in: int = Field(description="Causes are of one request in so many of their pools")
    unmeasured: list[str]


@router.get("", response=ExplainOut, summary="What is different about the slow requests")
def explain(request: HttpRequest, parameters: Query[ExplainParameters]) -> dict[str, Any]:
    question = question_of(request)
    slow = parse_slow(dict(request.GET.lists()), time.time_ns())
    region, explanation = answers.explanation(question, slow, parameters.limit)
    causes = causes_of(question, slow, pools_served(), sample=True)
    window = region.window or question.range.window
    return {
        "region": {
            "e2e_from_ms": region.min_e2e_ns / 1e6,
            "e2e_to_ms": None if region.max_e2e_ns is None else region.max_e2e_ns / 1e6,
            "from_ns": window.from_ns,
            "to_ns": window.to_ns,
        },
        **{name: getattr(explanation, name) for name in SAME},
        "chosen_mean_ms": explanation.chosen_mean_ns,
        "rest_mean_ms": explanation.rest_mean_ns,
        "difference_ms": explanation.difference_ns,
        "nothing": nothing(explanation),
        "causes": causes.named,
        "causes_one_in": causes.one_in,
        "unmeasured": causes.unmeasured,
    }
