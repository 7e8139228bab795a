"""`policies`: lists policies and their revisions, proposes revisions, and takes them from state to state."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router, Status

from controlplane.accounts import groups
from controlplane.api.endpoints.openslo import as_file
from controlplane.api.formats import Number
from controlplane.api.schemas.policies import revisions as schemas
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.validators import NAME
from controlplane.policy import rights
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names, previews, steps
from controlplane.policy.revisions.apply import export
from controlplane.policy.revisions.read import try_policy_of

router = Router(tags=["policies"])
STATE = PolicyRevision.State
MAX_LISTED = 200


@router.get("/policies.yaml", summary="The texts of all policies in force")
def policies_as_yaml(request: HttpRequest) -> HttpResponse:
    return as_file(join_documents(export().values()), "policies.yaml")


@router.get("/policies/{name}.yaml", summary="The text of a policy in force")
def policy_as_yaml(request: HttpRequest, name: str) -> HttpResponse:
    text = export([name]).get(name) if NAME.fullmatch(name) else None
    if text is None:
        raise Http404(f"there is no policy {name[:100]!r} in force; /api/v1/policies lists them")
    return as_file(text, f"{name}.yaml")


@router.get(
    "/policies", response=schemas.PoliciesOut, summary="Every policy, with its revisions in force and in shadow"
)
def all_policies(request: HttpRequest, parameters: Query[schemas.PolicyParameters]) -> dict[str, Any]:
    by_name: dict[str, list[PolicyRevision]] = {}
    for row in PolicyRevision.objects.order_by("name", "-number").defer("preview"):
        by_name.setdefault(row.name, []).append(row)
    listed = [policy_out(rows) for rows in by_name.values() if parameters.kind in (None, rows[0].kind)]
    wanted = parameters.in_force
    return {"policies": [out for out in listed if wanted is None or (out["active"] is not None) == wanted]}


@router.post(
    "/policies",
    response={200: schemas.PolicyRevisionDetailOut, 201: schemas.PolicyRevisionDetailOut},
    summary="Propose a revision; 200 where the newest has this text already",
)
def propose(request: HttpRequest, given: schemas.ProposalIn) -> Status[PolicyRevision]:
    """The draft decides nothing: preview, shadow, approve or activate it next."""
    rights.require(request.user, rights.PROPOSE)
    proposed = steps.propose(given.text, who=request.user.get_username(), source="api", note=given.note)
    return Status(201 if proposed.created else 200, proposed.revision)


@router.get("/policies/{name}", response=schemas.PolicyDetailOut, summary="One policy, with its revisions")
def one_policy(request: HttpRequest, name: str) -> dict[str, Any]:
    rows = list(_rows(name)[:MAX_LISTED])
    if not rows:
        raise Http404(f"there is no policy {name[:100]!r}; /api/v1/policies lists them")
    earlier = steps.roll_back_to(name)
    return {
        **policy_out(rows),
        "revisions": rows,
        "rolls_back_to": earlier.number if earlier else None,
    }


@router.post(
    "/policies/{name}/roll-back",
    response=schemas.PolicyRevisionDetailOut,
    summary="Bring an earlier text into force again",
)
def roll_back(request: HttpRequest, name: str, given: schemas.RollBackIn) -> PolicyRevision:
    """As a new revision, and at once: it was approved when it was new."""
    rights.require(request.user, rights.ACTIVATE)
    if not _rows(name).exists():
        raise Http404(f"there is no policy {name[:100]!r}; /api/v1/policies lists them")
    return steps.roll_back(name, request.user.get_username(), given.number, given.note)


@router.get("/policies/{name}/revisions/{int:number}", response=schemas.PolicyRevisionDetailOut, summary="One revision")
def one_revision(request: HttpRequest, name: str, number: Number) -> PolicyRevision:
    return _row(name, number)


@router.post(
    "/policies/{name}/revisions/{int:number}/preview",
    response={202: schemas.PreviewJobOut},
    summary="Begin its preview on recorded traffic; one that is open is answered instead",
)
def preview(request: HttpRequest, name: str, number: Number) -> Status[dict[str, Any]]:
    rights.require(request.user, rights.PROPOSE)
    job = previews.start(_row(name, number), request.user.get_username())
    return Status(202, {"job": job.pk, "state": job.state})


@router.post(
    "/policies/{name}/revisions/{int:number}/{step}",
    response=schemas.PolicyRevisionDetailOut,
    summary="Put it in shadow, approve what another person wrote, activate it, or retire it",
)
def take_step(
    request: HttpRequest, name: str, number: Number, step: schemas.StepName, given: schemas.StepIn
) -> PolicyRevision:
    """Each wants a right of its own. 409 where the revision's state, or its team, does not allow it."""
    groups.require_scope(request.user, rights.PROPOSE, f"{step} policies")  # before it learns which there are
    row = _row(name, number)
    rights.require(request.user, steps.right_for(step, row))
    return steps.TAKE[step](row, request.user.get_username(), given.note)


def policy_out(rows: list[PolicyRevision]) -> dict[str, Any]:
    """`rows`: all its revisions, the newest first."""
    active = next((row for row in rows if row.state == STATE.ACTIVE), None)
    in_shadow = next((row for row in rows if row.state == STATE.SHADOW), None)
    shown = active or rows[0]
    policy = try_policy_of(shown)
    return {
        "name": shown.name,
        "kind": shown.kind,
        "team": shown.team,
        "target": names.target(policy) if policy else "",
        "active": active.number if active else None,
        "shadow": in_shadow.number if in_shadow else None,
        "newest": rows[0].number,
        "newest_state": rows[0].state,
    }


def _rows(name: str) -> QuerySet[PolicyRevision]:
    rows: QuerySet[PolicyRevision] = PolicyRevision.objects.filter(name=name).order_by("-number")
    return rows if NAME.fullmatch(name) else rows.none()


def _row(name: str, number: int) -> PolicyRevision:
    row = _rows(name).filter(number=number).first()
    if row is None:
        raise Http404(f"there is no revision {number} of a policy {name[:100]!r}; /api/v1/policies/NAME lists them")
    return row
