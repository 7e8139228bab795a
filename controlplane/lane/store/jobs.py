"""Jobs as their tenants see them. Their lines run as those of batches do."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import transaction

from controlplane.lane.core import jobs, states
from controlplane.lane.core.jobs import NO_ANSWER, Answer, NewJob
from controlplane.lane.models import Batch, Callback, Line
from controlplane.lane.objects.port import Draft, Objects
from controlplane.lane.store import batches, callbacks, changes, claims, limits
from controlplane.lane.store.files import NotThereError

_PREFIXES = {states.RESPONSE: "resp", states.JOB: "job"}


class Standing(NamedTuple):
    """A job, what was asked, and what was answered, NO_ANSWER while there is none. `callback` is there once the job has ended, if it
    has one.
    """

    row: Batch
    line: Line
    request: dict[str, Any]
    answer: Answer
    callback: Callback | None

    @property
    def status(self) -> str:
        """As clients read it."""
        if self.row.status == states.IN_PROGRESS:
            return self.row.status if self.line.tries else states.QUEUED
        return self.row.status


class Created(NamedTuple):
    """`secret` is what its webhook is signed with, where it was made with this job."""

    it: Standing
    secret: str


def create(tenant: str, key_sha256: str, wanted: NewJob, draft: Draft) -> Created:
    """A job whose text is in the draft, and synchronised. Raises FullError, RefusedError, SealError."""
    with transaction.atomic():
        its = limits.of(tenant)
        limits.check_job(its, tenant, draft.size)
        at, is_response = claims.now(), wanted.kind == states.RESPONSE
        batch = Batch.objects.create(
            name=f"{_PREFIXES[wanted.kind]}_{secrets.token_hex(16)}",
            kind=wanted.kind,
            tenant=tenant,
            key_sha256=key_sha256,
            endpoint=wanted.endpoint,
            input_object=draft.refer(),
            completion_window=wanted.completion_window,
            metadata=wanted.metadata,
            model=wanted.model[:200],
            status=states.IN_PROGRESS,
            total=1,
            created_at=at,
            in_progress_at=at,
            expires_at=at + timedelta(seconds=jobs.WINDOW_S[wanted.completion_window]),
            callback_url=wanted.callback_url or (its.callback_url if is_response else ""),
            streams=wanted.streams,
            previous=wanted.previous,
        )
        line = Line.objects.create(batch=batch, number=1, offset=0, length=draft.size)
        changes.write(batch, at, states.QUEUED)
        by_webhook = wanted.callback_url and not wanted.callback_url.startswith(jobs.TO_TOPIC)
        secret = callbacks.secret_for(tenant) if by_webhook else ""
        return Created(Standing(batch, line, jobs.request_of(wanted.text), NO_ANSWER, None), secret)


def going_on(tenant: str, wanted: NewJob, objects: Objects) -> NewJob:
    """`wanted` with the conversation before it, if it goes on from a response. Raises NotThereError, RefusedError."""
    if not wanted.previous:
        return wanted
    try:
        before = read(tenant, wanted.previous, states.RESPONSE, objects)
    except NotThereError as error:
        raise NotThereError(str(error), jobs.PREVIOUS) from None
    return jobs.going_on(wanted, before.request, before.answer)


def read(tenant: str, name: str, kind: str, objects: Objects) -> Standing:
    """Raises NotThereError."""
    row = batches.get(tenant, name, kind)
    try:
        for without in _without_texts([row]):
            line = without.line
            request = jobs.request_of(objects.read(row.input_object, line.offset, line.length))
            return _answered(without._replace(request=request), objects)
    except FileNotFoundError:
        if batches.of_tenant(tenant, kind).filter(pk=row.pk).exists():
            raise
    raise batches.not_there(name, kind)  # it was deleted meanwhile


def _answered(it: Standing, objects: Objects) -> Standing:
    """With its answer; as failed where that is lost. Raises OSError."""
    row, line = it.row, it.line
    if line.segment is None:
        return it
    try:
        text = objects.result(row.pk, line.segment, line.result_offset, line.result_length)
    except FileNotFoundError:
        ended_s = (claims.now() - row.ended_at).total_seconds() if row.ended_at else 0.0
        if ended_s < states.RESULT_LOST_AFTER_S:
            raise
        row.status, line.code = states.FAILED, states.RESULT_LOST_CODE
        return it
    return it._replace(answer=jobs.answer_of(text))


def _without_texts(rows: Sequence[Batch]) -> list[Standing]:
    """Those that were deleted meanwhile are left out."""
    lines = {line.batch_id: line for line in Line.objects.filter(batch__in=rows)}
    sent = {callback.job_id: callback for callback in Callback.objects.filter(job__in=rows)}
    return [Standing(row, lines[row.pk], {}, NO_ANSWER, sent.get(row.pk)) for row in rows if row.pk in lines]


def listed(tenant: str, after: str, limit: int) -> tuple[list[Standing], bool]:
    """Without what was asked and answered, the newest first, those after the job named `after`; and whether there are more. Raises
    NotThereError.
    """
    rows, has_more = batches.listed(tenant, after, limit, states.JOB)
    return _without_texts(rows), has_more


def about(row: Batch) -> dict[str, Any]:
    """What the lane says of a response, whoever answers it."""
    return {
        "id": row.name,
        "object": "response",
        "created_at": int(row.created_at.timestamp()),
        "background": True,
        "store": True,
        "metadata": row.metadata or {},
        jobs.PREVIOUS: row.previous or None,
    }


def about_of(pk: int) -> dict[str, Any]:
    """The same of the response of this number; nothing where it was deleted meanwhile."""
    row = Batch.objects.filter(pk=pk).first()
    return about(row) if row else {}


def response(it: Standing, status: str = "") -> dict[str, Any]:
    """OpenAI's response object. `status` is in place of the present one."""
    row = it.row
    ended_at = row.ended_at if row.status == states.COMPLETED and not status else None
    more = {"completed_at": int(ended_at.timestamp()) if ended_at else None}
    status = status or (states.FAILED if it.status == states.EXPIRED else it.status)
    return jobs.response(about(row) | more, status, it.line.code, it.request, it.answer)


def cancel(tenant: str, name: str, kind: str, objects: Objects) -> Standing:
    """Raises NotThereError, ConflictError."""
    batches.cancel(tenant, name, kind)
    return read(tenant, name, kind, objects)


def delete(tenant: str, name: str, kind: str, objects: Objects) -> None:
    """Also one that runs: its answer is not kept. Raises NotThereError."""
    _delete(batches.get(tenant, name, kind), objects)


def sweep(objects: Objects) -> None:
    """Delete those that have been kept for long enough."""
    for row in Batch.objects.filter(kept_until__lte=claims.now()):
        _delete(row, objects)


def _delete(row: Batch, objects: Objects) -> None:
    pk, key = row.pk, row.input_object
    with transaction.atomic():
        locked = Batch.objects.select_for_update().filter(pk=pk).first()
        if locked is None:
            raise batches.not_there(row.name, row.kind)
        locked.delete()
    objects.remove(key)
    objects.remove_segments(pk)
