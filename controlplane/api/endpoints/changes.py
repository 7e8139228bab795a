"""`changes`: lists and records what was deployed or changed."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RECORD_CHANGE
from controlplane.accounts.core.rule import Owned
from controlplane.api.formats import Given, Link, Moment, Name, Text, Words
from controlplane.api.listing import ListParameters, newest_first
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify import changes

router = Router(tags=["changes"])


class ChangeIn(Given):
    identity: Name = Field(description="Such as deployment/gateway/2.1; each is recorded once")
    summary: Text = Field(max_length=1024)
    source: Name
    at: Moment | None = None
    team: Words = Field("", max_length=200)
    scope: dict[Name, Name] = Field({}, description="What it touches, by dimension; empty is everything")
    link: Link = ""


class ChangeOut(Schema):
    number: int = Field(validation_alias="pk")
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
    is_new: bool = Field(serialization_alias="told", description="False if it was recorded before")


@router.get("", response=ChangesOut, summary="What was changed, the newest first")
def all_changes(request: HttpRequest, parameters: Query[ListParameters]) -> dict[str, Any]:
    return newest_first(ChangeRecord.objects.all(), parameters, "changes")


@router.post("", response=ChangedOut, by_alias=True, summary="Record that something was deployed or changed")
def new_change(request: HttpRequest, given: ChangeIn) -> dict[str, Any]:
    rights.require(request.user, RECORD_CHANGE, Owned.by(given.team))
    at = given.at or timezone.now()
    is_new = changes.record(given.identity, given.summary, given.source, at, given.team, given.scope, given.link)
    return {"is_new": is_new}
