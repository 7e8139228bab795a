"""`/objectives`: lists objectives with their state, and adds, changes and deletes them."""

from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Body, Router, Status

from controlplane.accounts import groups
from controlplane.api.formats import Name
from controlplane.api.schemas import objectives as schemas
from controlplane.slo import queries
from controlplane.slo.core.document import objective_from_json, objective_to_json
from controlplane.slo.models import StoredObjective
from controlplane.slo.replay.burndown import history
from controlplane.slo.save import save_objective

router = Router(tags=["objectives"])
State = Literal["firing", "quiet", "unknown", "disabled"]


@router.get("", response=schemas.ObjectivesOut, summary="Every objective with its state")
def objectives(
    request: HttpRequest, owner: Name | None = None, model: Name | None = None, state: State | None = None
) -> dict[str, Any]:
    now = timezone.now()
    rows = StoredObjective.objects.select_related("owner").prefetch_related("states")
    listed = []
    for row in rows:
        statuses = [status for status in queries.statuses(row, row.states.all(), now) if state in (None, status.state)]
        if (
            statuses
            and owner in (None, row.owner.name if row.owner else "")
            and model in (None, row.scope.get("model"))
        ):
            listed.append({**_out(row), "states": statuses})
    return {"judged_at": _judged_at(), "objectives": listed}


@router.post("", response={201: schemas.ObjectiveOut}, summary="Add an objective")
def add_objective(request: HttpRequest, given: Body[schemas.ObjectiveIn]) -> Status[dict[str, Any]]:
    may(request, "add")
    if StoredObjective.objects.filter(slug=given.slug).exists():
        raise ValidationError({"slug": f"slug={given.slug!r} is taken: choose another, or PUT to change it"})
    return Status(201, _save(request, given.model_copy(update={"enabled": given.enabled is not False})))


@router.get("/{slug}", response=schemas.ObjectiveOut, summary="One objective")
def objective(request: HttpRequest, slug: str) -> dict[str, Any]:
    return _out(_row(slug))


@router.put(
    "/{slug}",
    response=schemas.ObjectiveOut,
    summary="Change it; the answer of GET may be sent back",
)
def change_objective(request: HttpRequest, slug: str, given: Body[schemas.ObjectiveIn]) -> dict[str, Any]:
    may(request, "change")
    row = _row(slug)
    if given.revision not in (None, row.revision):
        raise ValidationError(
            {"revision": f"revision={given.revision} is not the newest, {row.revision}: read it again, and change that"}
        )
    if given.slug != slug:
        raise ValidationError(
            {"slug": f"slug={given.slug!r} is not {slug!r}: a slug never changes; add another instead"}
        )
    return _save(request, given)


@router.delete("/{slug}", response={204: None}, summary="Delete it with its history")
def remove_objective(request: HttpRequest, slug: str) -> HttpResponse:
    may(request, "delete")
    _row(slug).delete()
    return HttpResponse(status=204)


@router.get("/{slug}/status", response=schemas.StatusOut, summary="Its state in each scope")
def objective_status(request: HttpRequest, slug: str) -> dict[str, Any]:
    row = _row(slug)
    statuses = queries.statuses(row, row.states.all(), timezone.now())
    return {"judged_at": _judged_at(), "states": statuses}


@router.get(
    "/{slug}/burndown",
    response=schemas.BurndownOut,
    summary="The error budget over its period, by hour; `of` is the key of a scope",
)
def objective_burndown(request: HttpRequest, slug: str, of: Name | None = None) -> dict[str, Any]:
    row = _row(slug)
    statuses = queries.statuses(row, row.states.all(), timezone.now())
    shown = next((status for status in statuses if status.key == of), statuses[0] if of is None else None)
    if shown is None:
        raise Http404(f"objective {slug!r} is not judged for {of!r}; /status lists its keys")
    seen = history(shown)
    return {"key": shown.key, "from_ns": seen.span.from_ns, "to_ns": seen.span.to_ns, "points": seen.points}


@router.get("/{slug}/revisions", response=list[schemas.RevisionOut], summary="Who changed what, the newest first")
def objective_revisions(request: HttpRequest, slug: str) -> Any:
    return _row(slug).revisions.all()


def _save(request: HttpRequest, given: schemas.ObjectiveIn) -> dict[str, Any]:
    parts = given.model_dump(exclude_none=True, exclude=set(schemas.NOT_EVALUATED))
    try:
        objective = objective_from_json(parts)
    except ValueError as error:
        raise ValidationError({str(error).partition("=")[0]: str(error)}) from None
    saved = save_objective(
        objective, who=request.user.get_username(), annotations=given.annotations, enabled=given.enabled
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


def _row(slug: str) -> StoredObjective:
    row = StoredObjective.objects.select_related("owner").filter(slug=slug).first()
    if row is None:
        raise Http404(f"there is no objective {slug[:100]!r}; /api/v1/objectives lists them")
    return row


def may(request: HttpRequest, action: str, model: str = "storedobjective", words: str = "objectives") -> None:
    """Raises PermissionDenied."""
    groups.require(request.user, f"slo.{action}_{model}", f"{action} {words}")
