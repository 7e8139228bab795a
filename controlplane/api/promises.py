"""Shapes of objectives in the REST API: what is sent, and what comes back."""

from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema
from pydantic import ConfigDict

from controlplane.slo.windows import Severity


class Part(Schema):
    """A field that is misspelt is an error, not a default."""

    model_config = ConfigDict(extra="forbid")


class IndicatorIn(Part):
    kind: Literal["availability", "latency", "cost", "histogram"]
    measure: str | None = Field(None, description="Of latency: ttft, itl, e2e, or a stage.")
    threshold_ms: float | None = Field(None, description="Of latency: the longest that is good.")
    ttft_definition: str | None = Field(None, description="Of TTFT: gateway by default; unlike ones are never mixed.")
    usd_per_1k_tokens: float | None = Field(None, description="Of cost: the highest that is good.")
    metric: str | None = Field(None, description="Of histogram: its name, without _bucket.")
    threshold: float | None = Field(None, description="Of histogram: one of its bounds, in the metric's unit.")
    labels: dict[str, str] | None = Field(None, description="Of histogram: labels that must be equal.")


class PeriodIn(Part):
    kind: Literal["rolling", "calendar"]
    period_s: int | None = Field(None, description="Of rolling.")
    unit: Literal["day", "week", "month", "quarter", "year"] | None = None
    start: str | None = Field(None, description="Of calendar: wall time, such as 2026-01-01T00:00:00.")
    zone: str | None = Field(None, description="Of calendar: IANA name.")
    count: int | None = None


class MethodIn(Part):
    kind: Literal["occurrences", "timeslices"]
    slice_s: int | None = None
    slice_target: float | None = None


class WindowIn(Part):
    severity: Severity
    long_s: int
    short_s: int
    budget_share: float = Field(description="Of the period's budget, burned within long_s.")


class MinimumIn(Part):
    total: int = 10
    bad: int = 3


class ObjectiveIn(Part):
    """An objective. What is left out has its default."""

    slug: str
    name: str
    indicator: IndicatorIn
    target: float = Field(description="0..1, exclusive: 0.999 for 99.9 %.")
    scope: dict[str, str] | None = Field(
        None, description="By model, variant, pool, region, tier, tenant, prompt_bucket."
    )
    split_by: list[str] | None = Field(None, description="Judged for each value of these by itself.")
    period: PeriodIn | None = None
    method: MethodIn | None = None
    windows: list[WindowIn] | None = Field(None, description="The SRE workbook's by default.")
    minimum: MinimumIn | None = None
    owner: str | None = Field(None, description="A team's name.")
    runbook: str | None = None
    labels: dict[str, str] | None = None
    description: str | None = None
    enabled: bool = True
    annotations: dict[str, str] | None = None


class StateOut(Schema):
    """One scope, as it is now. `unknown` where nobody judged it lately, or where data is missing; `why` says so."""

    key: str
    scope: dict[str, str]
    state: Literal["firing", "quiet", "unknown", "disabled"]
    severity: str
    maintenance: bool
    why: str
    since: datetime | None
    at: datetime | None
    sli: float | None = Field(description="Share of good events in the period so far.")
    bad: int | None
    total: int | None
    budget: dict[str, float] | None
    lasts_s: float | None = Field(description="Until the budget is gone at the present rate.")
    verdicts: list[dict[str, Any]]


class ObjectiveOut(Schema):
    slug: str
    name: str
    indicator: dict[str, Any]
    target: float
    scope: dict[str, str]
    split_by: list[str]
    period: dict[str, Any]
    method: dict[str, Any]
    windows: list[dict[str, Any]]
    minimum: dict[str, int]
    owner: str
    runbook: str
    labels: dict[str, str]
    description: str
    enabled: bool
    annotations: dict[str, Any]
    revision: int
    updated_at: datetime


class ObjectiveWithStateOut(ObjectiveOut):
    states: list[StateOut]


class ObjectivesOut(Schema):
    judged_at: datetime | None = Field(description="When the controller last finished a tick.")
    objectives: list[ObjectiveWithStateOut]


class StatusOut(Schema):
    judged_at: datetime | None
    states: list[StateOut]


class BurndownPointOut(Schema):
    start_s: int
    left_share: float | None
    bad: int
    total: int


class BurndownOut(Schema):
    key: str
    from_ns: int
    to_ns: int
    points: list[BurndownPointOut]


class RevisionOut(Schema):
    number: int
    at: datetime
    who: str
    changed: list[str]
    document: dict[str, Any]


class MaintenanceIn(Part):
    name: str
    start: str = Field(description="Wall time, such as 2026-11-22T02:00:00; of a recurring one, the first.")
    zone: str = "UTC"
    duration_s: int
    rule: str = Field("", description="RFC 5545, such as FREQ=WEEKLY;BYDAY=SU; empty is once.")
    scope: dict[str, str] = Field({}, description="Of requests; empty is all traffic.")
    objectives: list[str] = Field([], description="Slugs; none is all.")
    reason: str
    enabled: bool = True


class MaintenanceOut(MaintenanceIn):
    model_config = ConfigDict(extra="ignore")

    id: int
    author: str
