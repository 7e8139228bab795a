"""`/objectives`: lists objectives with their state, and adds, changes and deletes them."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Body, Field, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_OBJECTIVES
from controlplane.api.formats import Count, Given, Link, Measured, Name, Slug, WallTime, Words
from controlplane.api.listing import only
from controlplane.api.steps import DraftedOut, drafted
from controlplane.fleet.files.revisions import managed_elsewhere
from controlplane.slo import queries
from controlplane.slo.core.document import objective_from_json, objective_to_json
from controlplane.slo.core.windows import Severity
from controlplane.slo.models import StoredObjective
from controlplane.slo.models.objective import MAX_RUNBOOK_CHARS
from controlplane.slo.queries import ObjectiveStatus
from controlplane.slo.replay.burndown import history
from controlplane.slo.save import save_objective
from controlplane.telemetry.query.core.parameters import MAX_NAME_CHARS

router = Router(tags=["objectives"])
State = Literal["firing", "quiet", "unknown", "disabled"]
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


class GapOut(Schema):
    from_s: int
    to_s: int
    why: str = Field(description="As it was known then")
    requests: int | None


class UnmeasuredOut(Schema):
    """Times in which gateways ended requests that never reached the ledger: these are neither good nor bad."""

    seconds: int
    requests: int | None = Field(description="About how many; null where nobody knows")
    in_part: bool = Field(
        False, description="Whether in some of these times most requests were measured, and some were lost."
    )
    of_more: bool = Field(
        description="Whether `requests` are all of its model and tier: gateways count no finer, so it may have fewer of its own."
    )
    gaps: list[GapOut] = Field(description="The newest first")
    others: int = Field(description="Earlier gaps that are not listed")


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
    unmeasured: UnmeasuredOut | None = Field(
        description="What was not measured in the period so far; null where it is all in the ledger."
    )

    resolve_sli: ClassVar[Any] = _judged("sli")
    resolve_bad: ClassVar[Any] = _judged("bad")
    resolve_total: ClassVar[Any] = _judged("total")
    resolve_budget: ClassVar[Any] = _judged("budget")
    resolve_lasts_s: ClassVar[Any] = _judged("lasts_s")
    resolve_verdicts: ClassVar[Any] = _judged("verdicts", [])
    resolve_unmeasured: ClassVar[Any] = _judged("unmeasured")


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


@router.get("", response=ObjectivesOut, summary="Every objective with its state")
def objectives(
    request: HttpRequest, owner: Name | None = None, model: Name | None = None, state: State | None = None
) -> dict[str, Any]:
    at = queries.present()
    rows = StoredObjective.objects.select_related("owner").prefetch_related("states")
    listed = []
    for row in rows:
        statuses = [status for status in queries.statuses(row, row.states.all(), at) if state in (None, status.state)]
        if (
            statuses
            and owner in (None, row.owner.name if row.owner else "")
            and model in (None, row.scope.get("model"))
        ):
            listed.append({**_out(row), "states": statuses})
    return {"judged_at": _judged_at(), "objectives": listed}


@router.post("", response={201: ObjectiveOut, 202: DraftedOut}, summary="Add an objective")
@drafted
def add_objective(request: HttpRequest, given: Body[ObjectiveIn]) -> Status[dict[str, Any]]:
    rights.require_anywhere(request.user, EDIT_OBJECTIVES)
    if StoredObjective.objects.filter(slug=given.slug).exists():
        raise ValidationError({"slug": f"slug={given.slug!r} is taken: choose another, or PUT to change it"})
    return Status(201, _save(request, given.model_copy(update={"enabled": given.enabled is not False})))


@router.get("/{slug}", response=ObjectiveOut, summary="One objective")
def objective(request: HttpRequest, slug: str) -> dict[str, Any]:
    return _out(row_of(slug))


@router.put(
    "/{slug}",
    response={200: ObjectiveOut, 202: DraftedOut},
    summary="Change it; the answer of GET may be sent back",
)
@drafted
def change_objective(request: HttpRequest, slug: str, given: Body[ObjectiveIn]) -> dict[str, Any]:
    row = rights.row_by(request.user, EDIT_OBJECTIVES, lambda: row_of(slug))
    if given.revision not in (None, row.revision):
        raise ValidationError(
            {"revision": f"revision={given.revision} is not the newest, {row.revision}: read it again, and change that"}
        )
    _require_here(row)
    if given.slug != slug:
        raise ValidationError(
            {"slug": f"slug={given.slug!r} is not {slug!r}: a slug never changes; add another instead"}
        )
    return _save(request, given)


@router.delete("/{slug}", response={204: None, 202: DraftedOut}, summary="Delete it with its history")
@drafted
def remove_objective(request: HttpRequest, slug: str) -> HttpResponse:
    row = rights.row_by(request.user, EDIT_OBJECTIVES, lambda: row_of(slug))
    _require_here(row)
    row.delete()
    return HttpResponse(status=204)


@router.get("/{slug}/status", response=StatusOut, summary="Its state in each scope")
def objective_status(request: HttpRequest, slug: str) -> dict[str, Any]:
    row = row_of(slug)
    statuses = queries.statuses(row, row.states.all(), queries.present())
    return {"judged_at": _judged_at(), "states": statuses}


@router.get(
    "/{slug}/burndown",
    response=BurndownOut,
    summary="The error budget over its period, by hour; `of` is the key of a scope",
)
def objective_burndown(request: HttpRequest, slug: str, of: Name | None = None) -> dict[str, Any]:
    row = row_of(slug)
    statuses = queries.statuses(row, row.states.all(), queries.present())
    shown = next((status for status in statuses if status.key == of), statuses[0] if of is None else None)
    if shown is None:
        raise Http404(f"objective {slug!r} is not judged for {of!r}; /status lists its keys")
    seen = history(shown)
    return {"key": shown.key, "from_ns": seen.span.from_ns, "to_ns": seen.span.to_ns, "points": seen.points}


@router.get("/{slug}/revisions", response=list[RevisionOut], summary="Who changed what, the newest first")
def objective_revisions(request: HttpRequest, slug: str) -> Any:
    return row_of(slug).revisions.all()


def _require_here(row: StoredObjective) -> None:
    if why := managed_elsewhere(row):
        raise ValidationError({"slug": why})


def _save(request: HttpRequest, given: ObjectiveIn) -> dict[str, Any]:
    parts = given.model_dump(exclude_none=True, exclude=set(NOT_EVALUATED))
    try:
        objective = objective_from_json(parts)
    except ValueError as error:
        raise ValidationError({str(error).partition("=")[0]: str(error)}) from None
    saved = save_objective(
        objective,
        who=request.user.get_username(),
        annotations=given.annotations,
        enabled=given.enabled,
        guard=rights.guard(request.user, EDIT_OBJECTIVES),
    )
    return _out(saved.row)


def _out(row: StoredObjective) -> dict[str, Any]:
    return {
        **objective_to_json(row.to_objective()),
        "enabled": row.enabled,
        "annotations": row.annotations,
        "revision": row.revision,
        "updated_at": row.updated_at,
    }


def _judged_at() -> Any:
    tick = queries.newest_tick()
    return tick.observed_at if tick else None


def row_of(slug: str) -> StoredObjective:
    """Raises Http404."""
    said = f"there is no objective {slug[:100]!r}; /api/v1/objectives lists them"
    return only(StoredObjective.objects.select_related("owner").filter(slug=slug), said)
