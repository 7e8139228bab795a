"""Requests that make something, and that their client may send again."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction

from controlplane.lane.core.lines import RefusedError
from controlplane.lane.models import Once
from controlplane.lane.store import claims
from controlplane.lane.store.write_turns import turn

MAX_KEY_CHARS = 255
KEPT = timedelta(days=7)
"""How long a key is known: longer than any client repeats."""


class OtherBodyError(Exception):
    """Permanent: the key was used for another request."""

    code = "idempotency_key_reused"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def made_before(tenant: str, key: str, body_sha256: str) -> str:
    """The id of what this request made when it came first, or nothing. Raises OtherBodyError."""
    row = Once.objects.filter(tenant=tenant, key=key).first() if key else None
    return _made(row, body_sha256) if row else ""


def once(tenant: str, key: str, body_sha256: str, make: Callable[[], str]) -> str:
    """The id of what `make` makes, or made when this request came first. Without a key it is always made. What it makes and the key are one
    transaction.

    Raises OtherBodyError, RefusedError, and whatever `make` raises.
    """
    if len(key) > MAX_KEY_CHARS:
        raise RefusedError(
            f"`Idempotency-Key` has {len(key)} characters, and may have {MAX_KEY_CHARS}.", "Idempotency-Key"
        )
    with turn():
        if not key:
            return make()
        with transaction.atomic():
            row, is_new = Once.objects.get_or_create(
                tenant=tenant, key=key, defaults={"body_sha256": body_sha256, "created_at": claims.now()}
            )
            if is_new:
                row.made = make()
                row.save(update_fields=["made"])
    return _made(row, body_sha256)


def _made(row: Once, body_sha256: str) -> str:
    if row.body_sha256 != body_sha256:
        raise OtherBodyError("This Idempotency-Key was used for another request: use a new one.")
    return row.made


def forget() -> None:
    """Keys that are older than KEPT."""
    Once.objects.filter(created_at__lt=claims.now() - KEPT).delete()
