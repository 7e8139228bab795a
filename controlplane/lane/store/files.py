"""Rows of files. Each question names its tenant: another's file is not there."""

import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from controlplane.lane.core import states
from controlplane.lane.models import Batch, StoredFile
from controlplane.lane.objects.port import Draft, Objects, is_key
from controlplane.lane.store import claims

PURPOSES = ("batch", "assistants", "fine-tune", "vision", "user_data", "evals")
BATCH_EXPIRES_AFTER_S = 2_592_000
"""Of a file for a batch without an expiry of its own, as OpenAI has it."""

Row = TypeVar("Row", bound=Model)


class NotThereError(Exception):
    """Permanent: this tenant has nothing of the name."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def new_file_id() -> str:
    return f"file-{secrets.token_hex(16)}"


def create(
    file_id: str, tenant: str, purpose: str, filename: str, draft: Draft, expires_after_s: int | None
) -> StoredFile:
    """Of a draft that is synchronised."""
    at = claims.now()
    lasts_s = expires_after_s or (BATCH_EXPIRES_AFTER_S if purpose == "batch" else None)
    return StoredFile.objects.create(
        id=file_id,
        tenant=tenant,
        purpose=purpose,
        filename=filename[:255],
        bytes=draft.size,
        lines=draft.lines,
        object=draft.refer(),
        created_at=at,
        expires_at=at + timedelta(seconds=lasts_s) if lasts_s else None,
    )


def _present() -> QuerySet[StoredFile]:
    return StoredFile.objects.filter(Q(expires_at=None) | Q(expires_at__gt=claims.now()))


def get(tenant: str, file_id: str) -> StoredFile:
    """Raises NotThereError."""
    file = _present().filter(tenant=tenant, pk=file_id).first()
    if file is None:
        raise NotThereError(f"There is no file {file_id[:100]!r}.", "file_id")
    return file


def listed(tenant: str, after: str, limit: int, order: str, purpose: str) -> tuple[Sequence[StoredFile], bool]:
    """And whether there are more. Raises NotThereError."""
    falling = order == "desc"
    rows = _present().filter(tenant=tenant).order_by(*(("-created_at", "-id") if falling else ("created_at", "id")))
    if purpose:
        rows = rows.filter(purpose=purpose)
    if after:
        last = get(tenant, after)
        beyond = "lt" if falling else "gt"
        rows = rows.filter(
            Q(**{f"created_at__{beyond}": last.created_at})
            | Q(**{"created_at": last.created_at, f"id__{beyond}": last.pk})
        )
    return page(rows, limit)


def page(rows: "QuerySet[Row]", limit: int) -> tuple[Sequence[Row], bool]:
    given = list(rows[: limit + 1])
    return given[:limit], len(given) > limit


def delete(tenant: str, file_id: str, objects: Objects) -> None:
    """Its bytes stay while a batch needs them. Raises NotThereError."""
    _delete(get(tenant, file_id), objects)


def _delete(row: StoredFile, objects: Objects) -> None:
    key = row.object
    row.delete()
    if not _inputs([key]):
        objects.remove(key)


_NEEDY = Q(status__in=states.OPEN) | ~Q(kind=states.BATCH)
"""Batches whose input and segments are needed. A job's are, for as long as there is one."""


def _inputs(keys: Collection[str]) -> set[str]:
    """Those that a batch needs."""
    return set(Batch.objects.filter(_NEEDY, input_object__in=keys).values_list("input_object", flat=True))


def sweep(objects: Objects) -> None:
    """Remove files that have expired, and bytes that nothing refers to."""
    for row in StoredFile.objects.filter(expires_at__lte=claims.now()):
        _delete(row, objects)
    for keys in objects.old():
        known = set(StoredFile.objects.filter(object__in=keys).values_list("object", flat=True))
        for key in set(keys) - known - _inputs(keys):
            if is_key(key):
                objects.remove(key)
    for batches in objects.batches():
        needed = Batch.objects.filter(_NEEDY, pk__in=batches).values_list("pk", flat=True)
        for pk in set(batches) - set(needed):
            objects.remove_segments(pk)
