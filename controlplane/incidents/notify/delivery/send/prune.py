"""Forget what was settled long ago, unless its key is still open somewhere: a resolve must find where its trigger went."""

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q

from controlplane.incidents.notify.delivery.models import Delivery, HookEvent

AT_ONCE = 1_000
HOOKS_KEPT = timedelta(days=30)
"""Longer than an event is taken for (`inbound.TOO_OLD`): one that is forgotten is too old to be taken again."""


def prune(before: datetime) -> int:
    """How many rows were removed, at most AT_ONCE: a long list must not hold SQLite's lock."""
    same = Delivery.objects.filter(endpoint=OuterRef("endpoint"), key=OuterRef("key"))
    ended = same.filter(action="resolve", settled_at__lt=before, sequence__gte=OuterRef("sequence"))
    going_on = same.filter(Q(settled_at=None) | Q(settled_at__gte=before))
    old = (
        Delivery.objects.filter(settled_at__lt=before)
        .filter(Q(action="change") | Exists(ended))
        .filter(~Exists(going_on))
    )
    ids = list(old.values_list("id", flat=True)[:AT_ONCE])
    return Delivery.objects.filter(id__in=ids).delete()[0] if ids else 0


def prune_hooks(now: datetime) -> None:
    HookEvent.objects.filter(received_at__lt=now - HOOKS_KEPT).delete()
