"""`incidents`: lists them, and acknowledges, resolves, reopens and annotates one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Query, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RESPOND
from controlplane.api.formats import Given, Name, Number, Words
from controlplane.api.listing import ListParameters, newest_first
from controlplane.incidents.act import actions
from controlplane.incidents.core import runbook
from controlplane.incidents.decide import rows
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.notify.core.notice import Link
from controlplane.incidents.report.timeline import Line, timeline

router = Router(tags=["incidents"])
Standing = Literal["open", "acknowledged", "resolved"]


class IncidentParameters(ListParameters):
    status: list[Standing] = Field(
        ["open", "acknowledged"], max_length=3, description="By default those that are not resolved"
    )
    severity: Literal["page", "ticket"] | None = None
    objective: Name | None = None
    owner: Name | None = None
    model: Name | None = None


class LinkOut(Schema):
    href: str
    text: str


class IncidentOut(Schema):
    """`summary` is the page's text; `withheld` says why its page is not sent, and is empty where it is."""

    number: int = Field(validation_alias="pk")
    key: str = Field(validation_alias="notice_key", description="The notice's key: PagerDuty's dedup_key")
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
    resolves: str = Field(description="What resolves it; empty where it is resolved")
    opened_at: datetime
    since: datetime | None = Field(description="The first bad request")
    acknowledged_at: datetime | None
    acknowledged_by: str
    resolved_at: datetime | None
    resolved_by: str
    links: list[LinkOut]

    @staticmethod
    def resolve_withheld(incident: Incident) -> str:
        withheld = rows.withheld(incident)
        return rows.why_withheld(withheld) if withheld else ""

    @staticmethod
    def resolve_resolves(incident: Incident) -> str:
        return notices.facts(incident).resolves

    @staticmethod
    def resolve_links(incident: Incident) -> tuple[Link, ...]:
        return notices.links(incident, notices.facts(incident))


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


class TickedOut(Schema):
    by: str
    at: datetime


class RunbookStepOut(Schema):
    number: int
    text: str
    done: TickedOut | None


class IncidentDetailOut(IncidentOut):
    details: dict[str, Any]
    attribution: dict[str, Any] | None = Field(description="Frozen when it opened: stages, segments, traces, steps")
    attribution_missing: str
    changes: list[dict[str, Any]] = Field(description="What was changed before it, the latest first")
    opened_with: dict[str, Any] = Field(description="Burn rates and budget at opening")
    burning: dict[str, Any] = Field(description="Burn rates and budget as last seen")
    runbook_text: str = Field(description="Markdown, as of its opening")
    steps: list[RunbookStepOut] = Field(description="Of the runbook: items of its lists, or else its headings")
    timeline: list[EntryOut]

    @staticmethod
    def resolve_steps(incident: Incident) -> list[dict[str, Any]]:
        steps = runbook.steps(incident.runbook_text)
        return [
            {"number": step.number, "text": step.words, "done": incident.steps_done.get(str(step.number))}
            for step in steps
        ]

    @staticmethod
    def resolve_details(incident: Incident) -> Mapping[str, Any]:
        return page_text.details(notices.facts(incident))

    @staticmethod
    def resolve_timeline(incident: Incident) -> list[Line]:
        return timeline(incident)


class NoteIn(Given):
    note: Words = Field("", max_length=actions.MAX_NOTE_CHARS)


class TextIn(Given):
    note: Words = Field(min_length=1, max_length=actions.MAX_NOTE_CHARS)


class TickIn(Given):
    done: bool = Field(True, description="false: it is open after all")


class DoneOut(Schema):
    changed: bool
    status: str


@router.get("", response=IncidentsOut, summary="Incidents")
def listed(request: HttpRequest, parameters: Query[IncidentParameters]) -> dict[str, Any]:
    wanted = {
        "severity": parameters.severity,
        "objective": parameters.objective,
        "owner": parameters.owner,
        "scope__model": parameters.model,
    }
    query = Incident.objects.filter(
        status__in=parameters.status, **{name: value for name, value in wanted.items() if value is not None}
    )
    return newest_first(query, parameters, "incidents")


@router.get(
    "/{int:number}",
    response=IncidentDetailOut,
    operation_id="controlplane_api_incidents_one",
    summary="One incident, with its timeline",
)
def incident_detail(request: HttpRequest, number: Number) -> Incident:
    return get_object_or_404(Incident, pk=number)


@router.post("/{int:number}/acknowledge", response=DoneOut, summary="Acknowledge an incident")
def acknowledge(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    incident = rights.row_for(request.user, RESPOND, Incident, pk=number)
    changed = actions.acknowledge(incident.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(incident, changed)


@router.post("/{int:number}/resolve", response=DoneOut, summary="Resolve an incident")
def resolve(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    incident = rights.row_for(request.user, RESPOND, Incident, pk=number)
    changed = actions.resolve(incident.notice_key, request.user.get_username(), timezone.now(), given.note)
    return _done(incident, changed)


@router.post("/{int:number}/reopen", response=DoneOut, summary="Reopen a resolved incident")
def reopen(request: HttpRequest, number: Number, given: NoteIn) -> dict[str, Any]:
    """Possible for some minutes after it was resolved, or while it cools down; refused with 409 and the reason after that."""
    incident = rights.row_for(request.user, RESPOND, Incident, pk=number)
    now = timezone.now()
    if why_not := actions.why_not_reopened(incident, now):
        raise ValidationError({"number": why_not})
    return _done(incident, actions.reopen(incident.notice_key, request.user.get_username(), now, given.note))


@router.post("/{int:number}/notes", response=DoneOut, summary="Add a note to the timeline")
def note(request: HttpRequest, number: Number, given: TextIn) -> dict[str, Any]:
    incident = rights.row_for(request.user, RESPOND, Incident, pk=number)
    return _done(incident, actions.note(incident.notice_key, request.user.get_username(), timezone.now(), given.note))


@router.post(
    "/{int:number}/steps/{int:step}", response=DoneOut, summary="Tick a step of the runbook off, or open it again"
)
def step(request: HttpRequest, number: Number, step: Number, given: TickIn) -> dict[str, Any]:
    """404 where the runbook that the incident keeps has no such step."""
    incident = rights.row_for(request.user, RESPOND, Incident, pk=number)
    if step not in {each.number for each in runbook.steps(incident.runbook_text)}:
        raise Http404(f"The runbook of incident {number} has no step {step}.")
    by, now = request.user.get_username(), timezone.now()
    return _done(incident, actions.tick(incident.notice_key, by, now, step, given.done))


def _done(incident: Incident, changed: bool) -> dict[str, Any]:
    incident.refresh_from_db()
    return {"changed": changed, "status": incident.status}
