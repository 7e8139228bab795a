"""`changes`: lists and records what was deployed or changed."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RECORD_CHANGE
from controlplane.accounts.core.rule import Owned
from controlplane.api.listing import ListParameters, newest_first
from controlplane.api.schemas.changes import ChangedOut, ChangeIn, ChangesOut
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
    rights.require(request.user, RECORD_CHANGE, Owned.by(given.team))
    at = given.at or timezone.now()
    is_new = changes.record(given.identity, given.summary, given.source, at, given.team, given.scope, given.link)
    return {"is_new": is_new}
