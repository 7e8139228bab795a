"""`policies`: lists policies and their revisions, proposes revisions, and takes them from state to state."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import CHANGE_POLICIES, REJECT_POLICIES
from controlplane.api.endpoints.openslo import as_file
from controlplane.api.formats import Count, Given, Number, Words
from controlplane.api.listing import only
from controlplane.api.steps import NO_NOTE, ProposedOut, StepIn, StepsOut
from controlplane.core.documents import lifecycle
from controlplane.core.documents.lifecycle import Step
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.validators import NAME
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names, previews, steps
from controlplane.policy.revisions.apply import export
from controlplane.policy.revisions.read import plain_of, try_policy_of

router = Router(tags=["policies"])
STATE = PolicyRevision.State
MAX_LISTED = 200
Kind = Literal["Scaling", "Routing", "Degradation", "Canary"]
StepName = Literal["shadow", "approve", "activate", "retire", "keep"]
MAX_TEXT_CHARS = 200_000


class PolicyParameters(Schema):
    kind: Kind | None = None
    in_force: bool | None = Field(None, description="Only policies with a revision in force, or only those without one")


class ProposalIn(Given):
    text: Words = Field(min_length=1, max_length=MAX_TEXT_CHARS, description="YAML or JSON: one policy")
    note: Words = Field("", max_length=500, description="Why it was written")


class RollBackIn(Given):
    number: Count | None = Field(None, description="A revision that was in force; else what was in force before")
    note: Words = Field("", max_length=500)


class PolicyRevisionOut(ProposedOut):
    policy: str = Field(validation_alias="name")
    kind: str
    team: str = Field(description="That owns the policy; empty: none")
    source: str = Field(description="Where it was written: admin, api, file, bootstrap, canary or roll_back")
    label: str = Field(description="The owner label of the files it is applied from; empty: none")
    text_sha256: str
    created_at: datetime
    shadow_since: datetime | None
    activated_by: str
    activated_at: datetime | None
    retirement_by: str = Field(
        description="Who proposed to retire it, where that wants another person's approval; it is in force until then"
    )
    retirement_at: datetime | None
    retired_by: str
    retired_at: datetime | None


class PolicyRevisionDetailOut(StepsOut, PolicyRevisionOut):
    text: str
    document: dict[str, Any] = Field(description="The text as JSON")
    preview: dict[str, Any] = Field(description="What the preview measured; empty before")

    @staticmethod
    def resolve_document(row: PolicyRevision) -> dict[str, Any]:
        return plain_of(row)

    @staticmethod
    def resolve_approval(row: PolicyRevision) -> Sequence[str]:
        return steps.facts_of(row).wanting

    @staticmethod
    def resolve_steps(row: PolicyRevision, context: dict[str, Any]) -> Sequence[Step]:
        return lifecycle.possible(steps.facts_of(row), context["request"].user.get_username())


class PolicyOut(Schema):
    name: str
    kind: str
    team: str
    target: str = Field(
        description="What it is for: pool:NAME, gateway:NAME or model:NAME; empty where its text cannot be read"
    )
    active: int | None = Field(description="The number of the revision in force")
    shadow: int | None = Field(description="The number of the revision in shadow")
    newest: int
    newest_state: str


class PoliciesOut(Schema):
    policies: list[PolicyOut]


class PolicyDetailOut(PolicyOut):
    revisions: list[PolicyRevisionOut] = Field(description="The newest first, at most 200")
    rolls_back_to: int | None = Field(description="What a roll-back would bring back")


class PreviewJobOut(Schema):
    job: int = Field(description="Its progress: /api/v1/planning/jobs/NUMBER")
    state: str


@router.get("/policies.yaml", summary="The texts of all policies in force")
def policies_as_yaml(request: HttpRequest) -> HttpResponse:
    return as_file(join_documents(export().values()), "policies.yaml")


@router.get("/policies/{name}.yaml", summary="The text of a policy in force")
def policy_as_yaml(request: HttpRequest, name: str) -> HttpResponse:
    text = export([name]).get(name) if NAME.fullmatch(name) else None
    if text is None:
        raise Http404(f"there is no policy {name[:100]!r} in force; /api/v1/policies lists them")
    return as_file(text, f"{name}.yaml")


@router.get("/policies", response=PoliciesOut, summary="Every policy, with its revisions in force and in shadow")
def all_policies(request: HttpRequest, parameters: Query[PolicyParameters]) -> dict[str, Any]:
    by_name: dict[str, list[PolicyRevision]] = {}
    for row in PolicyRevision.objects.order_by("name", "-number").defer("preview"):
        by_name.setdefault(row.name, []).append(row)
    listed = [policy_out(rows) for rows in by_name.values() if parameters.kind in (None, rows[0].kind)]
    wanted = parameters.in_force
    return {"policies": [out for out in listed if wanted is None or (out["active"] is not None) == wanted]}


@router.post(
    "/policies",
    response={200: PolicyRevisionDetailOut, 201: PolicyRevisionDetailOut},
    summary="Propose a revision; 200 where the newest has this text already",
)
def propose(request: HttpRequest, given: ProposalIn) -> Status[PolicyRevision]:
    """The draft decides nothing: preview, shadow, approve or activate it next."""
    rights.require_anywhere(request.user, CHANGE_POLICIES)
    guard = rights.guard(request.user, CHANGE_POLICIES)
    proposed = steps.propose(given.text, who=request.user.get_username(), source="api", note=given.note, guard=guard)
    return Status(201 if proposed.created else 200, proposed.revision)


@router.get("/policies/{name}", response=PolicyDetailOut, summary="One policy, with its revisions")
def one_policy(request: HttpRequest, name: str) -> dict[str, Any]:
    rows = list(_rows(name)[:MAX_LISTED])
    if not rows:
        raise Http404(f"there is no policy {name[:100]!r}; /api/v1/policies lists them")
    earlier = steps.roll_back_to(name)
    return {**policy_out(rows), "revisions": rows, "rolls_back_to": earlier.number if earlier else None}


@router.post(
    "/policies/{name}/roll-back",
    response=PolicyRevisionDetailOut,
    summary="Bring an earlier text into force again",
)
def roll_back(request: HttpRequest, name: str, given: RollBackIn) -> PolicyRevision:
    """As a new revision, and at once: it was approved when it was new."""
    rights.require_anywhere(request.user, CHANGE_POLICIES)
    if not _rows(name).exists():
        raise Http404(f"there is no policy {name[:100]!r}; /api/v1/policies lists them")
    guard = rights.guard(request.user, CHANGE_POLICIES)
    return steps.roll_back(name, request.user.get_username(), given.number, given.note, guard)


@router.get("/policies/{name}/revisions/{int:number}", response=PolicyRevisionDetailOut, summary="One revision")
def one_revision(request: HttpRequest, name: str, number: Number) -> PolicyRevision:
    return _row(name, number)


@router.post(
    "/policies/{name}/revisions/{int:number}/preview",
    response={202: PreviewJobOut},
    summary="Begin its preview on recorded traffic; one that is open is answered instead",
)
def preview(request: HttpRequest, name: str, number: Number) -> Status[dict[str, Any]]:
    row = rights.row_by(request.user, CHANGE_POLICIES, lambda: _row(name, number))
    job = previews.start(row, request.user.get_username())
    return Status(202, {"job": job.pk, "state": job.state})


@router.post(
    "/policies/{name}/revisions/{int:number}/{step}",
    response=PolicyRevisionDetailOut,
    summary="Put it in shadow, approve what another person proposed, activate it, retire it, or keep it in force",
)
def take_step(
    request: HttpRequest, name: str, number: Number, step: StepName, given: StepIn = NO_NOTE
) -> PolicyRevision:
    """Each wants a right of its own. Where the team wants approvals, `retire` proposes to take what is in force out of it: `approve` by
    another person does so, and `keep` withdraws or rejects it. 409 where the revision's state, or its team, does not allow it."""
    row = rights.row_by(request.user, REJECT_POLICIES, lambda: _row(name, number), partial(steps.action_for, step))
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
    said = f"there is no revision {number} of a policy {name[:100]!r}; /api/v1/policies/NAME lists them"
    return only(_rows(name).filter(number=number), said)
