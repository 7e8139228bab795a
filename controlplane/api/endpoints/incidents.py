"""`incidents`: lists them, and acknowledges, resolves, reopens and annotates one."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Query, Router

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RESPOND
from controlplane.api.formats import Number
from controlplane.api.listing import newest_first
from controlplane.api.schemas.incidents import (
    DoneOut,
    IncidentDetailOut,
    IncidentParameters,
    IncidentsOut,
    NoteIn,
    TextIn,
    TickIn,
)
from controlplane.incidents.act import actions
from controlplane.incidents.core import runbook
from controlplane.incidents.models import Incident

router = Router(tags=["incidents"])


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
