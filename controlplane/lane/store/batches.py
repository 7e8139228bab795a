"""Batches as their tenants see them, and what time does to them."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.lane.core import states
from controlplane.lane.core.lines import MAX_INPUT_BYTES, WINDOW_S, NewBatch, RefusedError
from controlplane.lane.models import Batch, StoredFile
from controlplane.lane.store import changes, claims, limits
from controlplane.lane.store.files import NotThereError, new_file_id, page
from controlplane.lane.store.files import get as get_file


class ConflictError(Exception):
    """Permanent: the batch is in a state that does not allow this."""


def input_of(tenant: str, wanted: NewBatch) -> StoredFile:
    """Raises NotThereError, RefusedError."""
    try:
        file = get_file(tenant, wanted.input_file_id)
    except NotThereError as error:
        raise NotThereError(str(error), "input_file_id") from None
    if file.purpose != "batch":
        raise RefusedError(f"The file's purpose is {file.purpose!r}: upload it with purpose `batch`.", "input_file_id")
    if file.bytes > MAX_INPUT_BYTES:
        raise RefusedError(
            f"The file has {file.bytes} bytes, and a batch takes {MAX_INPUT_BYTES}: split it.", "input_file_id"
        )
    return file


def create(tenant: str, key_sha256: str, wanted: NewBatch) -> Batch:
    """Raises NotThereError, RefusedError."""
    file = input_of(tenant, wanted)
    expiry = wanted.output_expires_after
    return _made(
        tenant=tenant,
        key_sha256=key_sha256,
        endpoint=wanted.endpoint,
        input_file_id=file.pk,
        input_object=file.object,
        completion_window=wanted.completion_window,
        metadata=wanted.metadata,
        output_expires_after_s=expiry.seconds if expiry else None,
    )


def _made(**members: Any) -> Batch:
    at = claims.now()
    expires_at = at + timedelta(seconds=WINDOW_S[members["completion_window"]])
    with transaction.atomic():
        batch = Batch.objects.create(
            name=f"batch_{secrets.token_hex(16)}",
            created_at=at,
            expires_at=expires_at,
            callback_url=limits.of(members["tenant"]).callback_url,
            **members,
        )
        changes.write(batch, at)
    return batch


def of_tenant(tenant: str, kind: str = states.BATCH) -> QuerySet[Batch]:
    kept = Q(kept_until=None) | Q(kept_until__gt=claims.now())
    return Batch.objects.filter(kept, tenant=tenant, kind=kind)


def get(tenant: str, name: str, kind: str = states.BATCH, *, lock: bool = False) -> Batch:
    """`lock`: it stays as it is until the transaction ends. Raises NotThereError."""
    rows = of_tenant(tenant, kind).filter(name=name)
    batch = (rows.select_for_update() if lock else rows).first()
    if batch is None:
        raise not_there(name, kind)
    return batch


def not_there(name: str, kind: str) -> NotThereError:
    return NotThereError(f"There is no {kind} {name[:100]!r}.", f"{kind}_id")


def listed(tenant: str, after: str, limit: int, kind: str = states.BATCH) -> tuple[Sequence[Batch], bool]:
    """The newest first, those after the batch named `after`; and whether there are more. Raises NotThereError."""
    rows = of_tenant(tenant, kind).order_by("-pk")
    if after:
        rows = rows.filter(pk__lt=get(tenant, after, kind).pk)
    return page(rows, limit)


def cancel(tenant: str, name: str, kind: str = states.BATCH) -> Batch:
    """Its lines in flight are given up. Raises NotThereError, ConflictError."""
    with transaction.atomic():
        batch = get(tenant, name, kind, lock=True)
        if batch.status in (states.CANCELLING, states.CANCELLED):
            return batch
        if batch.status not in (states.VALIDATING, states.IN_PROGRESS):
            raise ConflictError(f"The {kind} is {batch.status}, and cannot be cancelled any more.")
        claims.end(batch, states.CANCELLED, claims.now())
        batch.save()
    return batch


def retry(batch: Batch) -> Batch:
    """A new batch of the lines that failed, as its tenant would make it. Raises ConflictError."""
    if batch.status not in states.ENDED or not batch.error_file_id:
        raise ConflictError(f"{batch.name} is {batch.status} and has no failed lines to run again.")
    return _made(
        tenant=batch.tenant,
        key_sha256=batch.key_sha256,
        endpoint=batch.endpoint,
        input_file_id=new_file_id(),
        completion_window=batch.completion_window,
        metadata=batch.metadata,
        output_expires_after_s=batch.output_expires_after_s,
        retry_of=batch.name,
    )


def expire() -> int:
    """End the batches whose time is over. Returns how many there were."""
    at = claims.now()
    late = Batch.objects.filter(status__in=(states.VALIDATING, states.IN_PROGRESS), expires_at__lte=at)
    with transaction.atomic():
        rows = list(late.order_by("pk").select_for_update(skip_locked=True)) if late.exists() else []
        for batch in rows:
            claims.end(batch, states.EXPIRED, at)
            batch.save()
    return len(rows)
