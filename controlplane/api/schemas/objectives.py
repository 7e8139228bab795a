"""Shapes of objectives in the REST API: what is sent, and what comes back."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from ninja import Field, Schema

from controlplane.api.formats import (
    Count,
    Given,
    Link,
    Measured,
    Name,
    Slug,
    Text,
    WallTime,
    Words,
)
from controlplane.slo.core.maintenance_windows import MAX_S
from controlplane.slo.core.windows import Severity
from controlplane.slo.models import Maintenance
from controlplane.slo.models.objective import MAX_RUNBOOK_CHARS
from controlplane.slo.queries import ObjectiveStatus
from controlplane.telemetry.query.core.parameters import MAX_NAME_CHARS

Dimension = Literal["model", "variant", "pool", "region", "tier", "tenant", "prompt_bucket"]
Scope = dict[Dimension, Name]
Labels = dict[Name, Words]
Share = Annotated[float, Field(gt=0, le=1)]


class IndicatorIn(Given):
    kind: Literal["availability", "latency", "cost", "histogram"]
    measure: Measured | None = Field(None, description="Of latency: ttft, itl, e2e, or a stage.")
    threshold_ms: float | None = Field(None, gt=0, le=1e9, description="Of latency: the longest that is good.")
    ttft_definition: Name | None = Field(
        None, max_length=40, description="Of TTFT: gateway by default; different definitions are never mixed."
    )
    count_client_errors: bool | None = Field(
        None,
        description="Of availability: true makes a client's own mistake (400, 401, 404, …) bad. By default it is not counted.",
    )
    usd_per_1k_tokens: float | None = Field(None, gt=0, le=1e9, description="Of cost: the highest that is good.")
    metric: Name | None = Field(None, description="Of histogram: its name, without _bucket.")
    threshold: float | None = Field(
        None, ge=-1e300, le=1e300, description="Of histogram: one of its bounds, in the metric's unit."
    )
    labels: Labels | None = Field(None, description="Of histogram: labels that must be equal.")


class PeriodIn(Given):
    kind: Literal["rolling", "calendar"]
    period_s: Count | None = Field(None, description="Of rolling.")
    unit: Literal["day", "week", "month", "quarter", "year"] | None = None
    start: WallTime | None = Field(None, description="Of calendar: wall time, such as 2026-01-01T00:00:00.")
    zone: Name | None = Field(None, max_length=64, description="Of calendar: IANA name.")
    count: Annotated[int, Field(ge=1, le=52)] | None = None


class MethodIn(Given):
    kind: Literal["occurrences", "timeslices"]
    slice_s: Count | None = None
    slice_target: Share | None = None


class WindowIn(Given):
    severity: Severity
    long_s: Count
    short_s: Count
    budget_share: Share = Field(description="Of the period's error budget, used within long_s.")


class MinimumIn(Given):
    total: Count = 10
    bad: Count = 3


class ObjectiveFields(Given):
    """Fields of an objective that have defaults."""

    scope: Scope | None = Field(None, description="By model, variant, pool, region, tier, tenant, prompt_bucket.")
    split_by: list[Dimension] | None = Field(
        None, max_length=7, description="Judged for each value of these by itself."
    )
    period: PeriodIn | None = None
    method: MethodIn | None = None
    windows: list[WindowIn] | None = Field(None, max_length=20, description="The SRE workbook's by default.")
    minimum: MinimumIn | None = None
    owner: Words | None = Field(None, max_length=MAX_NAME_CHARS, description="A team's name.")
    runbook: Link | None = None
    runbook_text: str | None = Field(
        None, max_length=MAX_RUNBOOK_CHARS, description="Markdown: what to do when it fires."
    )
    labels: Labels | None = None
    description: Words | None = Field(None, max_length=1050)


NOT_EVALUATED = ("enabled", "annotations", "revision", "updated_at")
"""Fields of an objective that evaluation does not use."""


class ObjectiveDraft(ObjectiveFields):
    slug: Slug | None = None
    name: Name | None = None
    indicator: IndicatorIn
    target: float = Field(gt=0, lt=1, description="0.999 for 99.9 %.")
    enabled: bool | None = Field(None, description="True for a new one; a change keeps what it leaves out.")
    annotations: dict[Name, Any] | None = Field(None, description="A change keeps what it leaves out.")
    revision: Count | None = Field(
        None, description="Of a change: the revision that it is based on. Another one is refused with 409."
    )
    updated_at: Any = Field(None, description="As it was read; ignored.")


class ObjectiveIn(ObjectiveDraft):
    """An objective. What is left out has its default."""

    slug: Slug
    name: Name


class ObjectiveDifference(ObjectiveFields):
    """What differs from another objective."""

    indicator: IndicatorIn | None = None
    target: float | None = Field(None, gt=0, lt=1)


def _judged(name: str, missing: Any = None) -> Callable[[ObjectiveStatus], Any]:
    """A value of what was evaluated, which may not be known."""
    return staticmethod(lambda status: status.document.get(name, missing))


class StateOut(Schema):
    """One scope, as it is now. `unknown` if it was not evaluated lately or data is missing; `why` says which."""

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
    lasts_s: float | None = Field(description="Until the error budget is used up at the present rate.")
    verdicts: list[dict[str, Any]]

    resolve_sli: ClassVar[Any] = _judged("sli")
    resolve_bad: ClassVar[Any] = _judged("bad")
    resolve_total: ClassVar[Any] = _judged("total")
    resolve_budget: ClassVar[Any] = _judged("budget")
    resolve_lasts_s: ClassVar[Any] = _judged("lasts_s")
    resolve_verdicts: ClassVar[Any] = _judged("verdicts", [])


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
    runbook_text: str
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


class MaintenanceIn(Given):
    """A change keeps `enabled` as it is where it is left out."""

    name: Name
    start: WallTime = Field(description="Wall time, such as 2026-11-22T02:00:00; of a recurring one, the first.")
    zone: Name = Field("UTC", max_length=64)
    duration_s: Annotated[int, Field(ge=60, le=MAX_S)]
    rule: Words = Field("", max_length=300, description="RFC 5545, such as FREQ=WEEKLY;BYDAY=SU; empty is once.")
    scope: Scope = Field({}, description="Of requests; empty is all traffic.")
    objectives: list[Slug] = Field([], max_length=1000, description="Slugs; none is all.")
    reason: Text = Field(max_length=500)
    enabled: bool | None = Field(None, description="True for a new one.")
    id: Any = Field(None, description="As it was read; ignored.")
    author: Any = Field(None, description="As it was read; ignored.")


class MaintenanceOut(Schema):
    id: int
    name: str
    start: str
    zone: str
    duration_s: int
    rule: str
    scope: dict[str, str]
    objectives: list[str]
    reason: str
    enabled: bool
    author: str

    @staticmethod
    def resolve_objectives(row: Maintenance) -> list[str]:
        return sorted(objective.slug for objective in row.objectives.all())
