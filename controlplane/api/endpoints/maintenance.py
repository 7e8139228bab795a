"""`/maintenance`: planned times, in which requests do not count."""

from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Body, Field, Router, Schema, Status
from pydantic import BeforeValidator

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_OBJECTIVES
from controlplane.api.endpoints.objectives import Scope
from controlplane.api.formats import Given, Name, Number, Slug, Text, WallTime, Words
from controlplane.api.listing import only
from controlplane.api.steps import DraftedOut, drafted
from controlplane.fleet.files.revisions import managed_elsewhere
from controlplane.slo.core.maintenance_windows import MAX_S
from controlplane.slo.models import Maintenance, StoredObjective

router = Router(tags=["objectives"])


class MaintenanceIn(Given):
    """A change keeps `enabled` as it is where it is left out."""

    name: Name
    start: WallTime = Field(description="Wall time, such as 2026-11-22T02:00:00; of a recurring one, the first.")
    zone: Name = Field("UTC", max_length=64)
    duration_s: Annotated[int, Field(ge=60, le=MAX_S)]
    rule: Words = Field("", max_length=300, description="RFC 5545, such as FREQ=WEEKLY;BYDAY=SU; empty is once.")
    scope: Scope = Field({}, description="Of requests; empty is all traffic.")
    objectives: list[Slug] = Field([], max_length=1000, description="Slugs; none is all.")
    reason: Text = Field(max_length=500)
    enabled: bool | None = Field(None, description="True for a new one.")
    id: Any = Field(None, description="As it was read; ignored.")
    slug: Any = Field(None, description="As it was read; ignored.")
    author: Any = Field(None, description="As it was read; ignored.")


class MaintenanceOut(Schema):
    id: int
    slug: str = Field(description="Its name in files")
    name: str
    start: str
    zone: str
    duration_s: int
    rule: str
    scope: dict[str, str]
    objectives: Annotated[list[str], BeforeValidator(lambda rows: sorted(row.slug for row in rows))]
    reason: str
    enabled: bool
    author: str


@router.get("", response=list[MaintenanceOut], summary="Planned maintenance")
def maintenance(request: HttpRequest) -> Any:
    return Maintenance.objects.prefetch_related("objectives")


@router.post("", response={201: MaintenanceOut, 202: DraftedOut}, summary="Plan a maintenance window")
@drafted
def add_maintenance(request: HttpRequest, given: Body[MaintenanceIn]) -> Status[Maintenance]:
    rights.require_anywhere(request.user, EDIT_OBJECTIVES)
    return Status(201, _save(request, Maintenance(author=request.user.get_username()), given))


@router.get("/{number}", response=MaintenanceOut, summary="One maintenance window")
def one_maintenance(request: HttpRequest, number: Number) -> Maintenance:
    return _maintenance(number)


@router.put("/{number}", response={200: MaintenanceOut, 202: DraftedOut}, summary="Change a maintenance window")
@drafted
def change_maintenance(request: HttpRequest, number: Number, given: Body[MaintenanceIn]) -> Maintenance:
    return _save(request, _changed_here(request, number), given)


@router.delete(
    "/{number}",
    response={204: None, 202: DraftedOut},
    summary="Delete a maintenance window; requests in it count again",
)
@drafted
def remove_maintenance(request: HttpRequest, number: Number) -> HttpResponse:
    _changed_here(request, number).delete()
    return HttpResponse(status=204)


def _changed_here(request: HttpRequest, number: int) -> Maintenance:
    row = rights.row_by(request.user, EDIT_OBJECTIVES, lambda: _maintenance(number))
    if why := managed_elsewhere(row):
        raise ValidationError({"id": why})
    return row


@transaction.atomic
def _save(request: HttpRequest, row: Maintenance, given: MaintenanceIn) -> Maintenance:
    for name, value in given.model_dump(exclude={"objectives", "id", "slug", "author"}, exclude_none=True).items():
        setattr(row, name, value)
    chosen = list(StoredObjective.objects.filter(slug__in=given.objectives))
    if unknown := set(given.objectives) - {objective.slug for objective in chosen}:
        raise ValidationError({"objectives": f"objectives={min(unknown)!r} is none: /api/v1/objectives lists them"})
    row.full_clean(exclude=["slug"])
    rights.require(request.user, EDIT_OBJECTIVES, row.owned_by(chosen))
    row.save()
    row.objectives.set(chosen)
    return row


def _maintenance(number: Number) -> Maintenance:
    said = f"there is no maintenance window {number}; /api/v1/maintenance lists them"
    return only(Maintenance.objects.filter(pk=number), said)
