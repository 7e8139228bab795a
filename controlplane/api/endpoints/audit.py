"""`GET audit`: who changed what, or was refused."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SEE_AUDIT
from controlplane.api.formats import Name
from controlplane.api.listing import ListParameters
from controlplane.audit.models import Entry
from controlplane.core.listing import newest_first

router = Router(tags=["people"])


class AuditParameters(ListParameters):
    who: list[Name] = Field([], max_length=50, description="User names")
    via: list[Name] = Field([], max_length=50, description="`page`, `admin`, `api, token NAME`, or a process")
    action: list[Name] = Field([], max_length=20, description="Such as `changed`, `refused` or `logged in`")
    kind: list[Name] = Field([], max_length=50, description="What was changed, such as `fleet.pool`")
    subject_id: list[Name] = Field([], max_length=50, description="Which one, as entries have it")
    limit: int = Field(50, ge=1, le=1000)


class AuditEntryOut(Schema):
    number: int
    at: datetime
    who: str = Field(description="Empty where a process did it")
    via: str
    address: str = Field(description="The client's; empty where a process did it")
    action: str
    kind: str
    subject: str
    subject_id: str
    before: dict[str, Any] | None = Field(
        description="The fields that differ, without secrets; null where there was nothing before"
    )
    after: dict[str, Any] | None
    note: str
    previous: str = Field(description="Hash of the entry before")
    hash: str


class AuditOut(Schema):
    rows: list[AuditEntryOut]
    next_before: int | None


@router.get("", response=AuditOut, summary="Who changed what, and what was refused, the newest first")
def audit(request: HttpRequest, parameters: Query[AuditParameters]) -> dict[str, Any]:
    rights.require(request.user, SEE_AUDIT)
    page = newest_first(Entry.objects.all(), Entry.FILTERS, parameters.dict(), parameters.before, parameters.limit)
    return page._asdict()
