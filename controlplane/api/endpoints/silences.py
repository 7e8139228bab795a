"""`silences`: lists, makes, changes and ends them."""

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SILENCE
from controlplane.api.formats import Given, Matcher, Moment, Number, Text
from controlplane.api.listing import ListParameters, newest_first
from controlplane.incidents.act import silencing
from controlplane.incidents.models import SilenceRecord
from controlplane.incidents.models.silence import MAX_MATCHERS
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["silences"])


class SilenceParameters(ListParameters):
    over: bool = Field(False, description="Include those that are over")


class SilenceIn(Given):
    matchers: list[Matcher] = Field(
        min_length=1,
        max_length=MAX_MATCHERS,
        description="NAME=VALUE or NAME!=VALUE, all of which must match; `*` stands for anything",
    )
    starts_at: Moment | None = Field(None, description="Now, if left out")
    ends_at: Moment
    reason: Text = Field(max_length=500)


class SilenceChange(Given):
    ends_at: Moment | None = None
    reason: Text | None = Field(None, max_length=500)


class SilenceOut(Schema):
    number: int = Field(validation_alias="pk")
    matchers: list[str]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
    hides: int = Field(description="Open incidents whose pages it holds back")

    @staticmethod
    def resolve_hides(silence: SilenceRecord) -> int:
        return silencing.hidden(silence)


class SilencesOut(Schema):
    """The newest first."""

    silences: list[SilenceOut]
    next_before: int | None = Field(description="Give it as `before` for the next page")


@router.get("", response=SilencesOut, summary="Silences in force or to come, the newest first; all with `over=true`")
def all_silences(request: HttpRequest, parameters: Query[SilenceParameters]) -> dict[str, Any]:
    query = SilenceRecord.objects.all() if parameters.over else SilenceRecord.objects.filter(ends_at__gt=timezone.now())
    return newest_first(query, parameters, "silences")


@router.post("", response={201: SilenceOut}, summary="Silence what matches")
def new_silence(request: HttpRequest, given: SilenceIn) -> Status[SilenceRecord]:
    rights.require_anywhere(request.user, SILENCE)
    starts, ends = given.starts_at or timezone.now(), given.ends_at
    if ends <= timezone.now():
        raise BadQuestionError("ends_at", str(given.ends_at), "is over already", "Choose a time to come")
    try:
        made = silencing.add(
            given.matchers,
            starts,
            ends,
            request.user.get_username(),
            given.reason,
            rights.guard(request.user, SILENCE),
        )
    except ValidationError as error:
        raise _refused(error) from None
    return Status(201, made)


@router.get("/{int:number}", response=SilenceOut, summary="One silence")
def one_silence(request: HttpRequest, number: Number) -> SilenceRecord:
    return get_object_or_404(SilenceRecord, pk=number)


@router.patch("/{int:number}", response=SilenceOut, summary="Change its end or its reason")
def change_silence(request: HttpRequest, number: Number, given: SilenceChange) -> SilenceRecord:
    silence = rights.row_for(request.user, SILENCE, SilenceRecord, pk=number)
    try:
        silencing.change(silence, given.ends_at, given.reason, request.user.get_username())
    except ValidationError as error:
        raise _refused(error) from None
    return silence


@router.delete("/{int:number}", response=SilenceOut, summary="End it now; the record stays")
def end_silence(request: HttpRequest, number: Number) -> SilenceRecord:
    silence = rights.row_for(request.user, SILENCE, SilenceRecord, pk=number)
    silencing.end(silence, timezone.now(), request.user.get_username())
    return silence


def _refused(error: ValidationError) -> BadQuestionError:
    field, messages = next(iter(error.message_dict.items()))
    return BadQuestionError(field, "", "is refused", messages[0].rstrip("."))
