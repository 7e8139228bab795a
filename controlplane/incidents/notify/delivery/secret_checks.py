"""Checks that the secrets in use can be decrypted, and encrypts all secrets with the first key."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError, transaction

from controlplane.accounts.login import adapters as second_factors
from controlplane.core.encryption import SealError
from controlplane.core.formatting import capitalised
from controlplane.core.sealed import Sealed


def in_use() -> Iterator[Sealed]:
    """Rows of any room whose secrets are needed."""
    for kind in Sealed.__subclasses__():
        yield from kind.in_use()


def unreadable() -> list[str]:
    """The reason for each secret in use that cannot be decrypted."""
    reasons = []
    for row in in_use():
        try:
            _ = row.secret
        except SealError as error:
            reasons.append(str(error))
    return reasons


@register(Tags.database)
def check_secrets(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """A warning and no error: `migrate` runs this, and the admin has to start so that secrets can be entered again."""
    if not databases:
        return []
    try:
        reasons = unreadable()
    except DatabaseError:
        return []  # not migrated yet
    return [
        Warning(f"{len(reasons)} of the stored secrets: {capitalised(reasons[0])}.", id="delivery.W001")
        for _ in reasons[:1]
    ]


@transaction.atomic
def seal_again() -> int:
    """Encrypt every secret with the first key; returns how many. Raises SealError, and then changes nothing."""
    rows = [row for kind in Sealed.__subclasses__() for row in kind._default_manager.select_for_update()]
    for row in rows:
        row.secret = row.secret
        row.save()
    return len(rows) + second_factors.seal_again()
