"""`changes`: lists and records what was deployed or changed."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from controlplane.api.listing import ListParameters, newest_first
from controlplane.api.schemas.changes import ChangedOut, ChangeIn, ChangesOut
from controlplane.incidents.act import rights
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify import changes

router = Router(tags=["changes"])


@router.get(
    "",
    response=ChangesOut,
    summary="What was changed, the newest first",
)
def all_changes(request: HttpRequest, parameters: Query[ListParameters]) -> dict[str, Any]:
    return newest_first(ChangeRecord.objects.all(), parameters, "changes")


@router.post(
    "",
    response=ChangedOut,
    by_alias=True,
    summary="Record that something was deployed or changed",
)
def new_change(request: HttpRequest, given: ChangeIn) -> dict[str, Any]:
    rights.require(request.user, rights.RECORD_CHANGE)
    at = given.at or timezone.now()
    is_new = changes.record(given.identity, given.summary, given.source, at, given.team, given.scope, given.link)
    return {"is_new": is_new}
