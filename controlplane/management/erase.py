"""Erases what Weir keeps of a tenant's requests: in the ledger, in the lane, and in gateways' caches."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from controlplane.audit.models import Entry
from controlplane.core.acting import actor
from controlplane.fleet.models import GatewayKey, Tenant, TokenIssuer
from controlplane.fleet.purge import purge_answers
from controlplane.lane.models import Batch, Change, Once, StoredFile
from controlplane.telemetry.store import Store

_LANE: tuple[type[models.Model], ...] = (Batch, StoredFile, Once, Change)
"""Lines, callbacks and changes go with their batch. A lane removes within minutes the bytes that nothing refers to any more."""


def counts(tenant: str, store: Store) -> dict[str, int]:
    """What is kept of it, rows by table. Raises StoreError."""
    return {**store.eraser.counts(tenant), **{_name(table): _of(table, tenant).count() for table in _LANE}}


def erase(tenant: Tenant, store: Store) -> dict[str, int]:
    """Erase it, and return what is left: zeros. Cut off, it is begun again.

    Raises ValidationError while somebody may send requests as this tenant, StoreError.
    """
    check_silent(tenant)
    before = counts(tenant.name, store)
    with transaction.atomic():
        for table in _LANE:
            _of(table, tenant.name).delete()
        purge_answers(tenant)
        Entry.write(
            actor(), "erased", kind="fleet.Tenant", subject=tenant.name, subject_id=str(tenant.pk), before=before
        )
    store.eraser.erase(tenant.name)
    return counts(tenant.name, store)


def check_silent(tenant: Tenant) -> None:
    """Raises ValidationError: what would come meanwhile would be kept."""
    keys = GatewayKey.objects.filter(tenant=tenant, enabled=True).values_list("name", flat=True)
    issuers = TokenIssuer.objects.filter(tenants=tenant, enabled=True).values_list("name", flat=True)
    for names, what in ((keys, "keys"), (issuers, "issuers of tokens")):
        if names:
            raise ValidationError(
                f"its {what} {', '.join(names)} are enabled: disable them first, so that nothing comes meanwhile"
            )


def _of(table: type[models.Model], tenant: str) -> "models.QuerySet[Any]":
    return table._default_manager.filter(tenant=tenant)


def _name(table: type[models.Model]) -> str:
    return str(table._meta.verbose_name_plural)
