"""Sends a refused delivery again, once its cause is corrected."""

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.notify.delivery.send import key_lock


@transaction.atomic
def send(delivery: Delivery) -> bool:
    """Whether it is pending again. It is not where a later notice was sent or is in flight, because that one must come after it."""
    key_lock.hold(delivery.key)
    later = Delivery.objects.filter(
        endpoint=delivery.endpoint_id, key=delivery.key, sequence__gt=delivery.sequence
    ).filter(Q(state=Delivery.State.DELIVERED) | Q(state=Delivery.State.PENDING, claimed_until__isnull=False))
    if later.exists():
        return False
    now = timezone.now()
    refused = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.DEAD)
    return bool(refused.update(state=Delivery.State.PENDING, settled_at=None, due_at=now, enqueued_at=now, attempts=0))
