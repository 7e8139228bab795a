"""The fleet as documents over REST: reads and applies them, and its revisions and the way back to them."""

import hashlib
from datetime import datetime
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import parse_etags
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.api.endpoints.openslo import BODY, FileStepOut, SentOut, as_file, files
from controlplane.api.formats import Given, Name, Number, Words
from controlplane.api.listing import ListParameters, newest_first, only
from controlplane.api.steps import NO_NOTE, StepIn, StepsOut, stepped
from controlplane.core.documents.plan import managed_by
from controlplane.core.documents.writing import join_documents
from controlplane.core.problems import problem
from controlplane.fleet.files import proposals
from controlplane.fleet.files.apply import AppliedFleet
from controlplane.fleet.files.differences import Difference, differences
from controlplane.fleet.files.export import export
from controlplane.fleet.files.kinds import KINDS, read_kind, text_of
from controlplane.fleet.files.kinds import guard as kind_guard
from controlplane.fleet.files.reading import check
from controlplane.fleet.models import FleetProposal, FleetRevision
from controlplane.policy.preview import proposal as fleet_previews

router = Router(tags=["fleet as code"])


class FleetParameters(Schema):
    kind: list[Name] = Field([], max_length=20, description="Such as Model; all unless given")
    team: Words = Field("", max_length=100, description="Only what is this team's")


class FleetStepOut(FileStepOut):
    action: str = Field(..., description="create, change, unchanged, prune or conflict")


class FleetAppliedOut(SentOut):
    steps: list[FleetStepOut] = Field(validation_alias="applied.steps")


class FleetApplyParameters(Schema):
    owner_label: Words = Field("api", min_length=1, max_length=100, description="Marks what these files own")
    managed_by: Words = Field(
        "", max_length=80, description="In place of `owner_label`: these files alone change it, such as `git`"
    )
    note: Words = Field("", max_length=500, description="Why")
    prune: bool = Field(False, description="Delete what has the label and is in no file")
    adopt: bool = Field(False, description="Take over what was made by hand or elsewhere")
    dry_run: bool = False


class DifferenceOut(Schema):
    kind: str = Field(validation_alias="key.0")
    name: str = Field(validation_alias="key.1")
    did: str = Field(description="added, changed or removed")
    words: str
    before: str = Field(description="YAML; empty: there was none")
    after: str


class FleetRevisionOut(Schema):
    number: int
    at: datetime
    author: str = Field(description="Empty: a process")
    via: str
    note: str
    restores: int | None = Field(description="The revision that it brought back")


class FleetRevisionsOut(Schema):
    revisions: list[FleetRevisionOut]
    next_before: int | None


class FleetRevisionDetailOut(FleetRevisionOut):
    differences: list[DifferenceOut]

    @staticmethod
    def resolve_differences(row: FleetRevision) -> list[Difference]:
        return differences(row.changes.all())


class BringBackIn(Given):
    note: Words = Field("", max_length=500)
    team: Words = Field("", max_length=100, description="Of what is this team's alone")


class FleetProposalOut(StepsOut):
    text: str
    removes: list[list[str]]
    revision: int | None = Field(description="As which it came into force")
    gateways: str = Field(
        description="What they would obey otherwise now, in words; empty: nothing, or it waits no more"
    )
    who_may: dict[str, str] = Field(
        description="Who may take each step, such as `an approver of chat, or an administrator`; its author may always withdraw it "
        "(`retire`). Empty once it waits no more"
    )
    preview: dict[str, Any] = Field(
        description="What it would have changed for the requests that were recorded last, and what of it is not known (`unknown`, "
        "`never_served`, `not_replayed`); empty before, and where it ended in an error"
    )


class RevisionParameters(ListParameters):
    limit: int = Field(50, ge=1, le=200)


@router.get("/fleet.yaml", summary="The fleet as people entered it")
def fleet_as_yaml(request: HttpRequest, parameters: Query[FleetParameters]) -> HttpResponse:
    return as_file(join_documents(export(parameters.kind, parameters.team).values()), "fleet.yaml")


@router.get("/fleet/documents/{kind}/{path:name}", summary="One document of the fleet, with its ETag")
def document(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    text = _text(kind, name)
    answer = as_file(text, f"{kind.lower()}.yaml")
    answer["ETag"] = _etag(text)
    return answer


IF_MATCH = {"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"}}
"""The ETag of the document that the change was made of, or several, of which it is one; `*` is any that is there.

https://www.rfc-editor.org/rfc/rfc9110#name-if-match: weak ones match none.
"""


@router.put(
    "/fleet/documents/{kind}/{path:name}",
    response={200: FleetAppliedOut, 202: FleetAppliedOut, 409: FleetAppliedOut},
    summary="Change one document, if it is still what `If-Match` says",
    openapi_extra={**BODY, "parameters": [IF_MATCH]},
)
def change_document(request: HttpRequest, kind: str, name: str) -> Any:
    """412 where it has changed since or is gone. 202 where it waits for another person's approval."""
    rights.require_anywhere(request.user, EDIT_FLEET)
    matches = request.headers.get("If-Match")
    if matches is None:
        return _changed(request, kind, name)
    with transaction.atomic():
        try:
            wanted, etag = parse_etags(matches), _etag(_text(kind, name, lock=True))
        except Http404 as missing:
            if kind not in KINDS:
                raise
            # Of what is not there nothing matches, not even `*`.
            return problem(412, "Not there", str(missing))
        if etag not in wanted and wanted != ["*"]:
            detail = f"{kind} {name} is another one by now: read it again, and send its ETag"
            return problem(412, "Changed since", detail)
        return _changed(request, kind, name)


def _changed(request: HttpRequest, kind: str, name: str) -> Any:
    texts = files(request)
    read, _ = check(texts)
    if [each.key for each in read] not in ([], [(kind, name)]):
        message = f"the body has to be {kind[:40]} {name[:100]} and nothing else: send others to their own addresses"
        other = next(each for each in read if each.key != (kind, name) or each is not read[0])
        problems = [other.problem(("metadata", "name"), message, "other")]
        return Status(409, proposals.Sent(AppliedFleet(len(read), (), problems, False)))
    return _sent(request, texts, label=None)


@router.post(
    "/fleet/apply",
    response={200: FleetAppliedOut, 202: FleetAppliedOut, 409: FleetAppliedOut},
    summary="Make the fleet equal to files, all or none",
    openapi_extra=BODY,
)
def apply_fleet_files(request: HttpRequest, parameters: Query[FleetApplyParameters]) -> Any:
    """Idempotent. 409 where a file has errors or something belongs to another owner; nothing is changed then. 202 where a team wants
    another person's approval: `proposal` waits for it.
    """
    rights.require_anywhere(request.user, EDIT_FLEET)
    given = parameters.dict()
    label, manager = given.pop("owner_label"), given.pop("managed_by")
    return _sent(request, files(request), label=managed_by(manager) if manager else label, **given)


def _sent(request: HttpRequest, texts: dict[str, str], **options: Any) -> Status[proposals.Sent]:
    guard = kind_guard(request.user, EDIT_FLEET)
    sent = proposals.apply_or_propose(texts, author=request.user.get_username(), guard=guard, **options)
    return Status(409 if sent.refused else 202 if sent.proposal else 200, sent)


@router.get("/fleet/revisions", response=FleetRevisionsOut, summary="Every change of the fleet, the newest first")
def fleet_revisions(request: HttpRequest, parameters: Query[RevisionParameters]) -> dict[str, Any]:
    return newest_first(FleetRevision.objects.all(), parameters, "revisions")


@router.get("/fleet/revisions/{int:number}", response=FleetRevisionDetailOut, summary="One change, with what differs")
def fleet_revision(request: HttpRequest, number: Number) -> FleetRevision:
    return _revision(number)


@router.post(
    "/fleet/revisions/{int:number}/bring-back",
    response={201: FleetProposalOut},
    summary="Propose the fleet as it was; bring it into force next",
)
def bring_fleet_back(request: HttpRequest, number: Number, given: BringBackIn) -> Status[dict[str, Any]]:
    """409 where the fleet is like that already. Keys, issuers of tokens and purges stay as they are."""
    rights.require_anywhere(request.user, EDIT_FLEET)
    _revision(number)
    who = request.user.get_username()
    made = proposals.bring_back(number, who=who, note=given.note, team=given.team)
    return Status(201, _shown(request, made))


@router.get("/fleet/proposals/{int:number}", response=FleetProposalOut, summary="A proposed change of the fleet")
def fleet_proposal(request: HttpRequest, number: Number) -> dict[str, Any]:
    return _shown(request, _proposal(number))


@router.post(
    "/fleet/proposals/{int:number}/{step}",
    response=FleetProposalOut,
    summary="Preview a proposed change, approve another person's, bring it into force, or withdraw it",
)
def take_fleet_step(
    request: HttpRequest, number: Number, step: proposals.Step, given: StepIn = NO_NOTE
) -> dict[str, Any]:
    """Each wants a right of its own. 409 where its state, or the fleet as it is now, does not allow it. A preview is a job of the worker;
    each proposal gets one by itself, and an approval wants one of what it would change now.
    """
    action = proposals.STEPS[step]
    rights.require_anywhere(request.user, action)
    _proposal(number)
    guard = kind_guard(request.user, action)
    return _shown(request, fleet_previews.take(step, number, request.user.get_username(), guard, given.note))


def _revision(number: int) -> FleetRevision:
    said = f"there is no revision {number} of the fleet; /api/v1/fleet/revisions lists them"
    return only(FleetRevision.objects.filter(number=number), said)


def _proposal(number: int) -> FleetProposal:
    proposed = FleetProposal.objects.filter(pk=number).select_related("revision")
    return only(proposed, f"there is no proposal {number} of the fleet")


def _shown(request: HttpRequest, row: FleetProposal) -> dict[str, Any]:
    seen = proposals.outlook(row) if row.is_open else None
    facts = proposals.facts_of(row, seen)
    own = {"text": row.text, "removes": row.removes, "preview": row.preview, "revision": row.revision_id}
    own |= {"gateways": seen.gateways if seen else "", "who_may": seen.who_may if seen else {}}
    return {**stepped(row, row.pk, facts, request.user.get_username()), **own}


def _text(kind: str, name: str, *, lock: bool = False) -> str:
    """`lock`: it stays as it is until the transaction ends. Raises Http404."""
    known = KINDS.get(kind)
    row = known.find(name) if known else None
    if lock and row is not None:
        row = type(row)._default_manager.select_for_update().filter(pk=row.pk).first()
    if known is None or row is None:
        raise Http404(f"there is no {kind[:40]} {name[:100]!r} in the fleet; /api/v1/fleet.yaml has all")
    return text_of((kind, name), next(read_kind(known, [row]))[1])


def _etag(text: str) -> str:
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
