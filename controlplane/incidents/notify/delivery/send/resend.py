"""A refused page, sent again once what it was refused for is put right."""

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.notify.delivery.send import key_lock


@transaction.atomic
def send(delivery: Delivery) -> bool:
    """Whether it waits again. Not where a later step was told, or is on its way: it would come after what follows it."""
    key_lock.hold(delivery.key)
    later = Delivery.objects.filter(
        endpoint=delivery.endpoint_id, key=delivery.key, sequence__gt=delivery.sequence
    ).filter(Q(state=Delivery.State.DELIVERED) | Q(state=Delivery.State.PENDING, claimed_until__isnull=False))
    if later.exists():
        return False
    now = timezone.now()
    refused = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.DEAD)
    return bool(refused.update(state=Delivery.State.PENDING, settled_at=None, due_at=now, enqueued_at=now, attempts=0))
