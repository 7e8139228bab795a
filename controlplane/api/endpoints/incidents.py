"""`incidents`, `silences`, `changes`: what pages do, for programs."""

from datetime import datetime
from typing import Any, Literal, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Query, Router, Schema, Status

from controlplane.api.formats import Given, Link, Matcher, Moment, Name, Number, Text, Words
from controlplane.incidents.act import actions, changes, rights, silencing
from controlplane.incidents.decide import rows
from controlplane.incidents.models import ChangeRecord, Incident, SilenceRecord
from controlplane.incidents.models.silence import MOST_MATCHERS
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.report.timeline import timeline
from controlplane.telemetry.query.core.errors import BadQuestionError

MOST = 500
Row = TypeVar("Row", bound=Model)
Standing = Literal["open", "acknowledged", "resolved"]

router = Router(tags=["incidents"])
silences = Router(tags=["silences"])
change_router = Router(tags=["changes"])


class AskedIncidents(Schema):
    status: list[Standing] = Field(
        ["open", "acknowledged"], max_length=3, description="By default those that are not resolved"
    )
    severity: Literal["page", "ticket"] | None = None
    objective: Name | None = None
    owner: Name | None = None
    model: Name | None = None
    limit: int = Field(100, ge=1, le=MOST)
    before: Number | None = Field(
        None, description="Only incidents of a lower number: `next_before` of the page before"
    )


class LinkOut(Schema):
    href: str
    text: str


class IncidentOut(Schema):
    """`summary` is the page's text; `withheld` says why nobody is notified of it; empty where somebody is."""

    number: int
    key: str = Field(description="The notice's key: PagerDuty's dedup_key")
    objective: str = Field(description="Its slug; empty where the incident is of a component")
    component: str = Field(description="Such as gateway or pool:chat-large; empty where it is of an objective")
    objective_name: str = Field(description="The objective's name, or the component's")
    scope: dict[str, str]
    owner: str
    runbook: str
    group: str
    severity: str
    status: str
    signal: str = Field(description="firing, quiet or unknown: what evaluation last said")
    withheld: str
    summary: str
    resolves: str = Field(description="What ends it; empty where it is over")
    opened_at: datetime
    since: datetime | None = Field(description="The first bad minute")
    acknowledged_at: datetime | None
    acknowledged_by: str
    resolved_at: datetime | None
    resolved_by: str
    links: list[LinkOut]


class IncidentsOut(Schema):
    """The newest first."""

    incidents: list[IncidentOut]
    next_before: int | None


class EntryOut(Schema):
    at: datetime
    kind: str
    by: str
    via: str
    text: str


class IncidentDetailOut(IncidentOut):
    details: dict[str, Any]
    attribution: dict[str, Any] | None = Field(
        description="Frozen when it opened: stages, segments, changes, traces, steps"
    )
    attribution_missing: str
    opened_with: dict[str, Any] = Field(description="Burn rates and budget at opening")
    burning: dict[str, Any] = Field(description="Burn rates and budget as last seen")
    timeline: list[EntryOut]


class NoteIn(Given):
    note: Words = Field("", max_length=actions.LONGEST_NOTE)


class TextIn(Given):
    note: Words = Field(min_length=1, max_length=actions.LONGEST_NOTE)


class DoneOut(Schema):
    changed: bool
    status: str


class SilenceIn(Given):
    matchers: list[Matcher] = Field(
        min_length=1,
        max_length=MOST_MATCHERS,
        description="NAME=VALUE or NAME!=VALUE, all of which must match; `*` stands for anything",
    )
    starts_at: Moment | None = Field(None, description="Now, if left out")
    ends_at: Moment
    reason: Text = Field(max_length=500)


class SilenceChange(Given):
    ends_at: Moment | None = None
    reason: Text | None = Field(None, max_length=500)


class SilenceOut(Schema):
    number: int
    matchers: list[str]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
    hides: int = Field(description="Open incidents that nobody is notified of because of it")


class SilencesOut(Schema):
    """Those that end last first."""

    silences: list[SilenceOut]
    next_before: int | None = Field(description="Give it as `before` for the next page")


class AskedSilences(Schema):
    over: bool = Field(False, description="Those that are over, too")
    limit: int = Field(100, ge=1, le=MOST)
    before: Number | None = Field(None, description="Only silences of a lower number: `next_before` of the page before")


class ChangeIn(Given):
    identity: Name = Field(description="Such as deployment/gateway/2.1; the same is recorded once")
    summary: Text = Field(max_length=1024)
    source: Name
    at: Moment | None = None
    team: Words = Field("", max_length=200)
    scope: dict[Name, Name] = Field({}, description="What it touches, by dimension; empty: everything")
    link: Link = ""


class AskedChanges(Schema):
    limit: int = Field(100, ge=1, le=MOST)
    before: Number | None = Field(None, description="Only changes of a lower number: `next_before` of the page before")


class ChangeOut(Schema):
    number: int
    identity: str
    summary: str
    source: str
    at: datetime
    team: str
    scope: dict[str, str]
    link: str


class ChangesOut(Schema):
    """The newest first, by their number."""

    changes: list[ChangeOut]
    next_before: int | None


class ChangedOut(Schema):
    told: bool = Field(description="False where it was known already")


@router.get("", response=IncidentsOut, summary="Incidents")
def listed(request: HttpRequest, parameters: Query[AskedIncidents]) -> dict[str, Any]:
    wanted = {"severity": parameters.severity, "objective": parameters.objective, "owner": parameters.owner}
    query = Incident.objects.filter(
        status__in=parameters.status, **{name: value for name, value in wanted.items() if value is not None}
    ).order_by("-pk")
    if parameters.model is not None:
        query = query.filter(scope__model=parameters.model)
    shown, next_before = _page(query, parameters.before, parameters.limit)
    return {"incidents": [out(one) for one in shown], "next_before": next_before}


@router.get("/{int:number}", response=IncidentDetailOut, summary="One incident, with its timeline")
def one(request: HttpRequest, number: Number) -> dict[str, Any]:
    found = get_object_or_404(Incident, pk=number)
    return {
        **out(found),
        "details": page_text.details(notices.facts(found)),
        "attribution": found.attribution,
        "attribution_missing": found.attribution_missing,
        "opened_with": found.opened_with,
        "burning": found.burning,
        "timeline": [line._asdict() for line in timeline(found)],
    }


@router.post("/{int:number}/acknowledge", response=DoneOut, summary="Say that somebody is on it")
def acknowledge(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    rights.require(request.user, rights.ACT)
    found = get_object_or_404(Incident, pk=number)
    changed = actions.acknowledge(found.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(found, changed)


@router.post("/{int:number}/resolve", response=DoneOut, summary="Say that it is over")
def resolve(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    rights.require(request.user, rights.ACT)
    found = get_object_or_404(Incident, pk=number)
    changed = actions.resolve(found.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(found, changed)


@router.post("/{int:number}/reopen", response=DoneOut, summary="Take a resolution back")
def reopen(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    """For some minutes after it was resolved, or while it cools down. Refused with 409, and the reason, where that is over."""
    rights.require(request.user, rights.ACT)
    found = get_object_or_404(Incident, pk=number)
    now = timezone.now()
    if why_not := actions.why_not_reopened(found, now):
        raise ValidationError({"number": why_not})
    return _done(found, actions.reopen(found.notice_key, request.user.get_username(), now, given.note))


@router.post("/{int:number}/notes", response=DoneOut, summary="Add to the timeline")
def note(request: HttpRequest, number: Number, given: TextIn) -> dict[str, Any]:
    rights.require(request.user, rights.ACT)
    found = get_object_or_404(Incident, pk=number)
    return _done(found, actions.note(found.notice_key, request.user.get_username(), timezone.now(), given.note))


@silences.get("", response=SilencesOut, summary="Silences in force or to come, the newest first; all with `over=true`")
def all_silences(request: HttpRequest, parameters: Query[AskedSilences]) -> dict[str, Any]:
    query = SilenceRecord.objects.order_by("-pk")
    if not parameters.over:
        query = query.filter(ends_at__gt=timezone.now())
    shown, next_before = _page(query, parameters.before, parameters.limit)
    return {"silences": [silence_out(one) for one in shown], "next_before": next_before}


@silences.post("", response={201: SilenceOut}, summary="Silence what matches")
def new_silence(request: HttpRequest, given: SilenceIn) -> Status[dict[str, Any]]:
    rights.require(request.user, rights.SILENCE)
    starts, ends = given.starts_at or timezone.now(), given.ends_at
    if ends <= timezone.now():
        raise BadQuestionError("ends_at", str(given.ends_at), "is over already", "Choose a time to come")
    try:
        made = silencing.add(given.matchers, starts, ends, request.user.get_username(), given.reason)
    except ValidationError as error:
        raise _refused(error) from None
    return Status(201, silence_out(made))


@silences.get("/{int:number}", response=SilenceOut, summary="One silence")
def one_silence(request: HttpRequest, number: Number) -> dict[str, Any]:
    return silence_out(get_object_or_404(SilenceRecord, pk=number))


@silences.patch("/{int:number}", response=SilenceOut, summary="Move its end, or say another reason")
def change_silence(request: HttpRequest, number: Number, given: SilenceChange) -> dict[str, Any]:
    rights.require(request.user, rights.END_SILENCE)
    found = get_object_or_404(SilenceRecord, pk=number)
    try:
        silencing.change(found, given.ends_at, given.reason, request.user.get_username())
    except ValidationError as error:
        raise _refused(error) from None
    return silence_out(found)


@silences.delete("/{int:number}", response=SilenceOut, summary="End it now; it stays on record")
def end_silence(request: HttpRequest, number: Number) -> dict[str, Any]:
    rights.require(request.user, rights.END_SILENCE)
    found = get_object_or_404(SilenceRecord, pk=number)
    silencing.end(found, timezone.now(), request.user.get_username())
    return silence_out(found)


@change_router.get("", response=ChangesOut, summary="What was changed, the newest first")
def all_changes(request: HttpRequest, parameters: Query[AskedChanges]) -> dict[str, Any]:
    shown, next_before = _page(ChangeRecord.objects.order_by("-pk"), parameters.before, parameters.limit)
    return {"changes": [change_out(one) for one in shown], "next_before": next_before}


@change_router.post("", response=ChangedOut, summary="Say that something was deployed or changed")
def new_change(request: HttpRequest, given: ChangeIn) -> dict[str, Any]:
    rights.require(request.user, rights.RECORD_CHANGE)
    at = given.at or timezone.now()
    is_new = changes.record(given.identity, given.summary, given.source, at, given.team, given.scope, given.link)
    return {"told": is_new}


def out(found: Incident) -> dict[str, Any]:
    withheld = rows.withheld(found)
    columns = (
        "objective", "component", "objective_name", "scope", "owner", "runbook", "group", "severity", "status", "signal", "summary",
        "opened_at", "since", "acknowledged_at", "acknowledged_by", "resolved_at", "resolved_by",
    )  # fmt: skip
    facts = notices.facts(found)
    return {
        **{name: getattr(found, name) for name in columns},
        "number": found.pk,
        "key": found.notice_key,
        "withheld": rows.why_withheld(withheld) if withheld else "",
        "resolves": facts.resolves,
        "links": [{"href": link.href, "text": link.text} for link in notices.links(found, facts)],
    }


def silence_out(found: SilenceRecord) -> dict[str, Any]:
    columns = ("matchers", "starts_at", "ends_at", "author", "reason")
    return {**{name: getattr(found, name) for name in columns}, "number": found.pk, "hides": silencing.hidden(found)}


def change_out(found: ChangeRecord) -> dict[str, Any]:
    columns = ("identity", "summary", "source", "at", "team", "scope", "link")
    return {"number": found.pk, **{name: getattr(found, name) for name in columns}}


def _done(found: Incident, changed: bool) -> dict[str, Any]:
    found.refresh_from_db()
    return {"changed": changed, "status": found.status}


def _page(query: QuerySet[Row], before: int | None, limit: int) -> tuple[list[Row], int | None]:
    """Rows of a query by falling number, and the number before which the next page begins; None where there is none."""
    if before is not None:
        query = query.filter(pk__lt=before)
    found = list(query[: limit + 1])
    return found[:limit], found[limit - 1].pk if len(found) > limit else None


def _refused(error: ValidationError) -> BadQuestionError:
    field, found = next(iter(error.message_dict.items()))
    return BadQuestionError(field, "", "is refused", found[0].rstrip("."))
