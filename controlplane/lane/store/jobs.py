"""Jobs as their tenants see them. Their lines run as those of batches do."""

import secrets
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import transaction

from controlplane.lane.core import jobs, states
from controlplane.lane.core.jobs import NewJob
from controlplane.lane.models import Batch, Line
from controlplane.lane.objects import Draft, Objects
from controlplane.lane.store import batches, claims, limits
from controlplane.lane.store.files import NotThereError, new_file_id

_PREFIXES = {states.RESPONSE: "resp"}


class Standing(NamedTuple):
    """A job, what was asked, and what was answered: status and JSON, or 0 while there is no answer."""

    row: Batch
    line: Line
    request: dict[str, Any]
    answer: tuple[int, Any]

    @property
    def status(self) -> str:
        """As clients read it."""
        if self.row.status == states.IN_PROGRESS:
            return "in_progress" if self.line.tries else "queued"
        return states.FAILED if self.row.status == states.EXPIRED else self.row.status


def create(tenant: str, key_sha256: str, wanted: NewJob, draft: Draft) -> Batch:
    """A job whose text is in the draft, and synchronised. Raises FullError, RefusedError."""
    with transaction.atomic():
        limits.check_job(tenant, draft.size)
        at, file_id = claims.now(), new_file_id()
        draft.place(file_id)
        batch = Batch.objects.create(
            name=f"{_PREFIXES[wanted.kind]}_{secrets.token_hex(16)}",
            kind=wanted.kind,
            tenant=tenant,
            key_sha256=key_sha256,
            endpoint=wanted.endpoint,
            input_file_id=file_id,
            completion_window=wanted.completion_window,
            metadata=wanted.metadata,
            model=wanted.model[:200],
            status=states.IN_PROGRESS,
            total=1,
            created_at=at,
            in_progress_at=at,
            expires_at=at + timedelta(seconds=jobs.WINDOW_S[wanted.completion_window]),
        )
        Line.objects.create(batch=batch, number=1, offset=0, length=draft.size)
        return batch


def read(tenant: str, name: str, kind: str, objects: Objects) -> Standing:
    """Raises NotThereError."""
    row = batches.get(tenant, name, kind)
    try:
        line = row.lines.get()
        request = jobs.request_of(objects.path(row.input_file_id).read_bytes())
        if line.segment is None:
            return Standing(row, line, request, (0, None))
        with objects.read_segment(row.pk, line.segment) as segment:
            segment.seek(line.result_offset)
            return Standing(row, line, request, jobs.answer_of(segment.read(line.result_length)))
    except (FileNotFoundError, Line.DoesNotExist):
        batches.get(tenant, name, kind)  # it was deleted meanwhile
        raise


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
    pk = row.pk
    with transaction.atomic():
        locked = Batch.objects.select_for_update().filter(pk=pk).first()
        if locked is None:
            raise NotThereError(f"There is no {row.kind} {row.name!r}.", f"{row.kind}_id")
        locked.delete()
    objects.remove(row.input_file_id)
    objects.remove_segments(pk)
