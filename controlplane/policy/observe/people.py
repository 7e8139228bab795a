"""Pauses and overrides that are in force."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from controlplane.policy.core import observation
from controlplane.policy.models import Override, Pause

MS_PER_S = 1_000


def pauses(now: datetime) -> Iterator[observation.Pause]:
    for row in Pause.objects.filter(_in_force(now)).order_by("starts_at", "pk"):
        yield observation.Pause(
            until_ms=_ms(row.ends_at),
            scope=row.scope,  # type: ignore[arg-type]
            target=row.target,
            by=row.author,
            reason=row.reason,
        )


def overrides(now: datetime) -> Iterator[observation.Override]:
    """In the order in which people said them."""
    for row in Override.objects.counting().filter(_in_force(now)).order_by("starts_at", "pk"):
        yield observation.Override(
            until_ms=_ms(row.ends_at),
            target=row.pool,
            replicas=row.replicas,
            model=row.model,
            tier=row.tier,
            level=row.step,
            by=row.author,
            reason=row.reason,
        )


def _in_force(now: datetime) -> Q:
    return Q(starts_at__lte=now, ends_at__gt=now) & (Q(ended_at__isnull=True) | Q(ended_at__gt=now))


def _ms(at: datetime) -> int:
    return int(at.timestamp() * MS_PER_S)
