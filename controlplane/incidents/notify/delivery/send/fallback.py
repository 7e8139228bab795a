"""Sends a page to the fallback of a destination that does not accept it."""

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.notify.delivery.send import key_lock

log = structlog.get_logger(__name__)
PENDING = Delivery.State.PENDING


def is_open(delivery: Delivery) -> bool:
    """Whether its key is open at its endpoint: a step before it was delivered, and the latest of them is no resolve."""
    before = Delivery.objects.filter(
        endpoint=delivery.endpoint_id, key=delivery.key, sequence__lt=delivery.sequence, state=Delivery.State.DELIVERED
    )
    return before.order_by("-sequence").values_list("action", flat=True).first() in ("trigger", "acknowledge")


@transaction.atomic
def fall_through(trigger: Delivery) -> bool:
    """Send the fallback the page that `trigger` opens, and what follows it so far; whether anything was sent.

    The destination itself is still tried. What comes later goes to both (`route.open_at`).
    """
    fallback = trigger.destination.fallback if trigger.destination else None
    key_lock.hold(trigger.key)
    if trigger.action != "trigger" or fallback is None or not fallback.enabled or is_open(trigger):
        return False
    if not Delivery.objects.filter(pk=trigger.pk, state__in=(PENDING, Delivery.State.DEAD)).exists():
        return False  # it was delivered since the caller read it
    known = set(
        Delivery.objects.filter(endpoint=fallback.endpoint_id, key=trigger.key).values_list("sequence", flat=True)
    )
    steps = Delivery.objects.filter(endpoint=trigger.endpoint_id, key=trigger.key, sequence__gte=trigger.sequence)
    copies = [
        Delivery(
            destination=fallback,
            endpoint_id=fallback.endpoint_id,
            key=step.key,
            sequence=step.sequence,
            action=step.action,
            is_page=True,
            notice=step.notice,
            stands_in_for=step,
        )
        for step in steps.order_by("sequence")
        if (step.pk == trigger.pk or step.state == PENDING) and step.sequence not in known
    ]
    Delivery.objects.bulk_create(copies)
    if copies:
        log.warning("page.fell_back", key=trigger.key, destination=str(trigger.destination), fallback=str(fallback))
    return bool(copies)


def fall_through_late_ones(now: datetime) -> int:
    """Send every page to the fallback that has failed for as long as its destination allows; returns how many."""
    waiting = Delivery.objects.filter(
        state=PENDING, action="trigger", destination__fallback__enabled=True, fallbacks=None
    ).select_related("destination__fallback")
    return sum(
        fall_through(delivery)
        for delivery in waiting
        if delivery.destination
        and now - delivery.enqueued_at >= timedelta(seconds=delivery.destination.fallback_after_s)
    )
