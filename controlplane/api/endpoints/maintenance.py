"""`/maintenance`: planned times, in which requests do not count."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Body, Router, Status

from controlplane.api.endpoints.objectives import may
from controlplane.api.formats import Number
from controlplane.api.schemas import objectives
from controlplane.slo.models import Maintenance, StoredObjective

router = Router(tags=["objectives"])


@router.get("", response=list[objectives.MaintenanceOut], summary="Planned maintenance")
def maintenance(request: HttpRequest) -> Any:
    return Maintenance.objects.prefetch_related("objectives")


@router.post("", response={201: objectives.MaintenanceOut}, summary="Plan a maintenance window")
def add_maintenance(request: HttpRequest, given: Body[objectives.MaintenanceIn]) -> Status[Maintenance]:
    may(request, "add", "maintenance", "maintenance")
    return Status(201, _save(Maintenance(author=request.user.get_username()), given))


@router.get("/{number}", response=objectives.MaintenanceOut, summary="One maintenance window")
def one_maintenance(request: HttpRequest, number: Number) -> Maintenance:
    return _maintenance(number)


@router.put("/{number}", response=objectives.MaintenanceOut, summary="Change a maintenance window")
def change_maintenance(request: HttpRequest, number: Number, given: Body[objectives.MaintenanceIn]) -> Maintenance:
    may(request, "change", "maintenance", "maintenance")
    return _save(_maintenance(number), given)


@router.delete("/{number}", response={204: None}, summary="Delete a maintenance window; requests in it count again")
def remove_maintenance(request: HttpRequest, number: Number) -> HttpResponse:
    may(request, "delete", "maintenance", "maintenance")
    _maintenance(number).delete()
    return HttpResponse(status=204)


@transaction.atomic
def _save(row: Maintenance, given: objectives.MaintenanceIn) -> Maintenance:
    for name, value in given.model_dump(exclude={"objectives", "id", "author"}, exclude_none=True).items():
        setattr(row, name, value)
    chosen = list(StoredObjective.objects.filter(slug__in=given.objectives))
    if unknown := set(given.objectives) - {objective.slug for objective in chosen}:
        raise ValidationError({"objectives": f"objectives={min(unknown)!r} is none: /api/v1/objectives lists them"})
    row.full_clean()
    row.save()
    row.objectives.set(chosen)
    return row


def _maintenance(number: Number) -> Maintenance:
    row = Maintenance.objects.filter(pk=number).first()
    if row is None:
        raise Http404(f"there is no maintenance window {number}; /api/v1/maintenance lists them")
    return row
