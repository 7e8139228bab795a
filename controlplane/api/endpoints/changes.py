"""`changes`: lists and records what was deployed or changed."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from controlplane.api.listing import newest_first
from controlplane.api.schemas.changes import ChangedOut, ChangeIn, ChangeParameters, ChangesOut
from controlplane.incidents.act import changes, rights
from controlplane.incidents.models import ChangeRecord

router = Router(tags=["changes"])


@router.get(
    "",
    response=ChangesOut,
    summary="What was changed, the newest first",
)
def all_changes(request: HttpRequest, parameters: Query[ChangeParameters]) -> dict[str, Any]:
    shown, next_before = newest_first(ChangeRecord.objects.order_by("-pk"), parameters.before, parameters.limit)
    return {"changes": [change_out(change) for change in shown], "next_before": next_before}


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
    return {"told": is_new}


def change_out(change: ChangeRecord) -> dict[str, Any]:
    columns = ("identity", "summary", "source", "at", "team", "scope", "link")
    return {"number": change.pk, **{name: getattr(change, name) for name in columns}}
