"""`incidents`, `silences`, `changes`: what pages do, for programs."""

from datetime import datetime
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Query, Router, Schema, Status

from controlplane.incidents import changes, life, rows, silencing, telling, text
from controlplane.incidents.models import ChangeRecord, Incident, SilenceRecord
from controlplane.telemetry.ask.errors import BadQuestion

MOST = 500
Standing = Literal["open", "acknowledged", "resolved"]

router = Router(tags=["incidents"])
silences = Router(tags=["silences"])
change_router = Router(tags=["changes"])


class AskedIncidents(Schema):
    status: list[Standing] = Field(["open", "acknowledged"], description="By default those that are not resolved")
    severity: Literal["page", "ticket"] | None = None
    objective: str | None = Field(None, max_length=200)
    owner: str | None = Field(None, max_length=200)
    model: str | None = Field(None, max_length=200)
    limit: int = Field(100, ge=1, le=MOST)
    before: int | None = Field(
        None, ge=1, description="Only incidents of a lower number: `next_before` of the page before"
    )


class LinkOut(Schema):
    href: str
    text: str


class IncidentOut(Schema):
    """`summary` is the page's text; `withheld` says why nobody is told of it, and is empty where somebody is."""

    number: int
    key: str = Field(description="The notice's key: PagerDuty's dedup_key")
    objective: str
    objective_name: str
    scope: dict[str, str]
    owner: str
    runbook: str
    group: str
    severity: str
    status: str
    signal: str = Field(description="firing, quiet or unknown: what evaluation last said")
    withheld: str
    summary: str
    action: str = Field(description="What is being done about it")
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


class NoteIn(Schema):
    note: str = Field("", max_length=life.LONGEST_NOTE)


class TextIn(Schema):
    note: str = Field(min_length=1, max_length=life.LONGEST_NOTE)


class DoneOut(Schema):
    changed: bool
    status: str


class SilenceIn(Schema):
    matchers: list[str] = Field(
        description="NAME=VALUE or NAME!=VALUE, all of which must match; `*` stands for anything"
    )
    starts_at: datetime | None = Field(None, description="Now, if left out")
    ends_at: datetime
    reason: str = Field(max_length=500)


class SilenceChange(Schema):
    ends_at: datetime | None = None
    reason: str | None = Field(None, max_length=500)


class SilenceOut(Schema):
    number: int
    matchers: list[str]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
    hides: int = Field(description="Open incidents that nobody is told of because of it")


class ChangeIn(Schema):
    identity: str = Field(max_length=200, description="Such as deployment/gateway/2.1; the same is told once")
    summary: str = Field(min_length=1, max_length=1024)
    source: str = Field(min_length=1, max_length=200)
    at: datetime | None = None
    team: str = Field("", max_length=200)
    scope: dict[str, str] = Field({}, description="What it touches, by dimension; empty: everything")
    link: str = Field("", max_length=2000, pattern=r"^(https?://.*)?$")


class AskedChanges(Schema):
    limit: int = Field(100, ge=1, le=MOST)


class ChangeOut(Schema):
    identity: str
    summary: str
    source: str
    at: datetime
    team: str
    scope: dict[str, str]
    link: str


class ChangedOut(Schema):
    told: bool = Field(description="False where it was known already")


@router.get("", response=IncidentsOut, summary="Incidents")
def listed(request: HttpRequest, parameters: Query[AskedIncidents]) -> dict[str, Any]:
    _only(request, AskedIncidents)
    wanted = {"severity": parameters.severity, "objective": parameters.objective, "owner": parameters.owner}
    query = Incident.objects.filter(
        status__in=parameters.status, **{name: value for name, value in wanted.items() if value is not None}
    ).order_by("-pk")
    if parameters.model is not None:
        query = query.filter(scope__model=parameters.model)
    if parameters.before is not None:
        query = query.filter(pk__lt=parameters.before)
    found = list(query[: parameters.limit + 1])
    shown = found[: parameters.limit]
    return {
        "incidents": [out(one) for one in shown],
        "next_before": shown[-1].pk if len(found) > len(shown) else None,
    }


@router.get("/{int:number}", response=IncidentDetailOut, summary="One incident, with its timeline")
def one(request: HttpRequest, number: int) -> dict[str, Any]:
    found = get_object_or_404(Incident, pk=number)
    timeline = found.entries.values("at", "kind", "by", "via", "text")
    return {
        **out(found),
        "details": text.details(telling.facts(found)),
        "attribution": found.attribution,
        "attribution_missing": found.attribution_missing,
        "opened_with": found.opened_with,
        "burning": found.burning,
        "timeline": list(timeline),
    }


@router.post("/{int:number}/acknowledge", response=DoneOut, summary="Say that somebody is on it")
def acknowledge(request: HttpRequest, number: int, given: NoteIn) -> dict[str, Any]:
    found = get_object_or_404(Incident, pk=number)
    changed = life.acknowledge(found.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(found, changed)


@router.post("/{int:number}/resolve", response=DoneOut, summary="Say that it is over")
def resolve(request: HttpRequest, number: int, given: NoteIn) -> dict[str, Any]:
    found = get_object_or_404(Incident, pk=number)
    changed = life.resolve(found.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(found, changed)


@router.post("/{int:number}/notes", response=DoneOut, summary="Add to the timeline")
def note(request: HttpRequest, number: int, given: TextIn) -> dict[str, Any]:
    found = get_object_or_404(Incident, pk=number)
    return _done(found, life.note(found.notice_key, request.user.get_username(), timezone.now(), given.note))


@silences.get("", response=list[SilenceOut], summary="Silences in force or to come; all with `over=true`")
def all_silences(request: HttpRequest, over: bool = False) -> list[dict[str, Any]]:
    query = SilenceRecord.objects.all() if over else SilenceRecord.objects.filter(ends_at__gt=timezone.now())
    return [silence_out(one) for one in query[:MOST]]


@silences.post("", response={201: SilenceOut}, summary="Silence what matches")
def new_silence(request: HttpRequest, given: SilenceIn) -> Status[dict[str, Any]]:
    starts, ends = _aware("starts_at", given.starts_at) or timezone.now(), _aware("ends_at", given.ends_at)
    if ends is None or ends <= timezone.now():
        raise BadQuestion("ends_at", str(given.ends_at), "is over already", "Choose a time to come")
    try:
        made = silencing.add(given.matchers, starts, ends, request.user.get_username(), given.reason)
    except ValidationError as error:
        raise _refused(error) from None
    return Status(201, silence_out(made))


@silences.get("/{int:number}", response=SilenceOut, summary="One silence")
def one_silence(request: HttpRequest, number: int) -> dict[str, Any]:
    return silence_out(get_object_or_404(SilenceRecord, pk=number))


@silences.patch("/{int:number}", response=SilenceOut, summary="Move its end, or say another reason")
def change_silence(request: HttpRequest, number: int, given: SilenceChange) -> dict[str, Any]:
    found = get_object_or_404(SilenceRecord, pk=number)
    try:
        silencing.change(found, _aware("ends_at", given.ends_at), given.reason)
    except ValidationError as error:
        raise _refused(error) from None
    return silence_out(found)


@silences.delete("/{int:number}", response=SilenceOut, summary="End it now; it stays on record")
def end_silence(request: HttpRequest, number: int) -> dict[str, Any]:
    found = get_object_or_404(SilenceRecord, pk=number)
    silencing.end(found, timezone.now())
    return silence_out(found)


@change_router.get("", response=list[ChangeOut], summary="What was changed, the latest first")
def all_changes(request: HttpRequest, parameters: Query[AskedChanges]) -> list[ChangeRecord]:
    return list(ChangeRecord.objects.all()[: parameters.limit])


@change_router.post("", response=ChangedOut, summary="Say that something was deployed or changed")
def new_change(request: HttpRequest, given: ChangeIn) -> dict[str, Any]:
    at = _aware("at", given.at) or timezone.now()
    told = changes.record(given.identity, given.summary, given.source, at, given.team, given.scope, given.link)
    return {"told": told}


def out(found: Incident) -> dict[str, Any]:
    withheld = rows.withheld(found)
    columns = (
        "objective", "objective_name", "scope", "owner", "runbook", "group", "severity", "status", "signal", "summary", "opened_at",
        "since", "acknowledged_at", "acknowledged_by", "resolved_at", "resolved_by",
    )  # fmt: skip
    facts = telling.facts(found)
    return {
        **{name: getattr(found, name) for name in columns},
        "number": found.pk,
        "key": found.notice_key,
        "withheld": rows.why_untold(withheld) if withheld else "",
        "action": facts.action,
        "links": [{"href": link.href, "text": link.text} for link in telling.links(found, facts)],
    }


def silence_out(found: SilenceRecord) -> dict[str, Any]:
    columns = ("matchers", "starts_at", "ends_at", "author", "reason")
    return {**{name: getattr(found, name) for name in columns}, "number": found.pk, "hides": silencing.hidden(found)}


def _done(found: Incident, changed: bool) -> dict[str, Any]:
    found.refresh_from_db()
    return {"changed": changed, "status": found.status}


def _only(request: HttpRequest, schema: type[Schema]) -> None:
    """A misspelt filter must not widen an answer."""
    for name in request.GET:
        if name not in schema.model_fields:
            known = ", ".join(schema.model_fields)
            raise BadQuestion(name[:80], request.GET[name], "is not a parameter of this endpoint", f"Use {known}")


def _aware(field: str, at: datetime | None) -> datetime | None:
    if at is not None and at.tzinfo is None:
        raise BadQuestion(field, at.isoformat(), "has no zone", f"Write {at.isoformat()}Z, or the offset")
    return at


def _refused(error: ValidationError) -> BadQuestion:
    field, found = next(iter(error.message_dict.items()))
    return BadQuestion(field, "", "is refused", found[0].rstrip("."))
