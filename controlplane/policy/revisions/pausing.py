"""Makes, changes and ends pauses and overrides. All have an end; their records stay.

Whoever calls asks for the right, or gives a `guard` that does.
"""

from datetime import datetime
from typing import Any, TypeVar

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.accounts.rights import Guard, unguarded
from controlplane.policy.models import Override, Pause

log = structlog.get_logger(__name__)
Kept = TypeVar("Kept", Pause, Override)


def pause(
    *,
    scope: str,
    target: str = "",
    ends_at: datetime,
    reason: str,
    who: str,
    starts_at: datetime | None = None,
    guard: Guard = unguarded,
) -> Pause:
    """From now on unless `starts_at` is given. Raises ValidationError, by field."""
    return keep(
        Pause(scope=scope, target=target, ends_at=ends_at, reason=reason, starts_at=starts_at or timezone.now()),
        who,
        guard,
    )


def override(
    *,
    ends_at: datetime,
    reason: str,
    who: str,
    starts_at: datetime | None = None,
    guard: Guard = unguarded,
    **what: Any,
) -> Override:
    """`what`: pool and replicas, or model, tier and step. Raises ValidationError, by field."""
    return keep(Override(ends_at=ends_at, reason=reason, starts_at=starts_at or timezone.now(), **what), who, guard)


def keep(row: Kept, who: str, guard: Guard = unguarded) -> Kept:
    """Save a new one under its author's name. Raises ValidationError, by field."""
    row.author = who[:150]
    row.reason = row.reason.strip()
    row.full_clean()
    guard(row)
    row.save()
    log.info(f"{row._meta.model_name}.made", number=row.pk, target=str(row), ends_at=row.ends_at.isoformat(), by=who)
    return row


@transaction.atomic
def end(row: Kept, who: str) -> bool:
    """End it now, or before it begins. False where it was over already."""
    now = timezone.now()
    open_ones = type(row)._default_manager.select_for_update().filter(pk=row.pk, ended_at__isnull=True, ends_at__gt=now)
    if open_one := open_ones.first():
        open_one.ended_at, open_one.ended_by = now, who[:150]
        open_one.save(update_fields=["ended_at", "ended_by"])
        log.info(f"{row._meta.model_name}.ended", number=row.pk, target=str(row), by=who)
    row.refresh_from_db()
    return open_one is not None


def in_force(table: type[Kept], *, over: bool = False) -> QuerySet[Kept]:
    """Those in force or to come, the newest first; with `over` the past ones too."""
    rows: QuerySet[Kept] = table._default_manager.order_by("-pk")
    return rows if over else rows.filter(ended_at__isnull=True, ends_at__gt=timezone.now())
