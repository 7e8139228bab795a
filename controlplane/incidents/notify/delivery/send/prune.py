"""Removes old deliveries, unless their key is still open: a resolve goes where its trigger went."""

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q

from controlplane.incidents.notify.delivery.models import Delivery, HookEvent

AT_ONCE = 1_000
HOOKS_KEPT = timedelta(days=30)
"""Longer than events are accepted for (`act.pagerduty_events.TOO_OLD`), so that none is accepted twice."""


def prune(before: datetime) -> int:
    """Remove at most AT_ONCE rows, so that SQLite is not locked for long; returns how many."""
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
