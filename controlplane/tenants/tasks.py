"""Removes what a tenant wants kept for a shorter time than everybody's, on the worker's schedule (`controlplane/worker/schedule.py`)."""

from datetime import UTC, datetime, time, timedelta

import structlog
from celery import shared_task
from django.conf import settings
from django.utils import timezone

from controlplane.fleet.models import Tenant
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)


@shared_task  # type: ignore[untyped-decorator]
def prune_tenants() -> None:
    """Where the store does not answer, the next hour's task does it."""
    store, now = Store(settings.CONFIG.store_dsn), timezone.now()
    for tenant in Tenant.objects.filter(retention_days__isnull=False):
        try:
            if removed := prune(tenant, store, now):
                log.info("tenant.pruned", tenant=tenant.name, rows=removed)
        except (StoreError, StoreUnavailableError) as error:
            log.warning("tenant.not_pruned", tenant=tenant.name, error=str(error))


def kept_since_ns(tenant: Tenant, now: datetime) -> int | None:
    """From when on its requests are kept, Unix time in ns: whole days, as the store's own retention has it. None: as everybody's."""
    if tenant.retention_days is None:
        return None
    day = now.astimezone(UTC).date() - timedelta(days=tenant.retention_days)
    return int(datetime.combine(day, time(), UTC).timestamp()) * 10**9


def prune(tenant: Tenant, store: Store, now: datetime) -> int:
    """Remove what is older, and return how many rows that were, of all tables. Raises the store's errors."""
    before_ns = kept_since_ns(tenant, now)
    if before_ns is None:
        return 0
    older = sum(store.eraser.counts(tenant.name, before_ns).values())
    if older:
        store.eraser.erase(tenant.name, before_ns)
    return older
