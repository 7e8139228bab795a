"""`silences`: lists, makes, changes and ends them."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Query, Router, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SILENCE
from controlplane.api.formats import Number
from controlplane.api.listing import newest_first
from controlplane.api.schemas.silences import SilenceChange, SilenceIn, SilenceOut, SilenceParameters, SilencesOut
from controlplane.incidents.act import silencing
from controlplane.incidents.models import SilenceRecord
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["silences"])


@router.get(
    "",
    response=SilencesOut,
    summary="Silences in force or to come, the newest first; all with `over=true`",
)
def all_silences(request: HttpRequest, parameters: Query[SilenceParameters]) -> dict[str, Any]:
    query = SilenceRecord.objects.all() if parameters.over else SilenceRecord.objects.filter(ends_at__gt=timezone.now())
    return newest_first(query, parameters, "silences")


@router.post(
    "",
    response={201: SilenceOut},
    summary="Silence what matches",
)
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
            lambda made: rights.require(request.user, SILENCE, made),
        )
    except ValidationError as error:
        raise _refused(error) from None
    return Status(201, made)


@router.get("/{int:number}", response=SilenceOut, summary="One silence")
def one_silence(request: HttpRequest, number: Number) -> SilenceRecord:
    return get_object_or_404(SilenceRecord, pk=number)


@router.patch(
    "/{int:number}",
    response=SilenceOut,
    summary="Change its end or its reason",
)
def change_silence(request: HttpRequest, number: Number, given: SilenceChange) -> SilenceRecord:
    silence = rights.row_for(request.user, SILENCE, SilenceRecord, pk=number)
    try:
        silencing.change(silence, given.ends_at, given.reason, request.user.get_username())
    except ValidationError as error:
        raise _refused(error) from None
    return silence


@router.delete(
    "/{int:number}",
    response=SilenceOut,
    summary="End it now; the record stays",
)
def end_silence(request: HttpRequest, number: Number) -> SilenceRecord:
    silence = rights.row_for(request.user, SILENCE, SilenceRecord, pk=number)
    silencing.end(silence, timezone.now(), request.user.get_username())
    return silence


def _refused(error: ValidationError) -> BadQuestionError:
    field, messages = next(iter(error.message_dict.items()))
    return BadQuestionError(field, "", "is refused", messages[0].rstrip("."))
