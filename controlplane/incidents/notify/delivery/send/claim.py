"""Claims deliveries that are due, and settles them by the answer. Any number of senders may do so at once, and be killed at any point.

Of an endpoint and key, only the earliest pending delivery can be claimed, and a claim ends after its lease. So the order holds without
coordination between senders, and what a killed sender had claimed is sent again.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from controlplane.audit.models import Entry
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy, classify, next_attempt_s, pause_s
from controlplane.incidents.notify.delivery.models import AUDIT, Delivery, Endpoint
from controlplane.incidents.notify.delivery.send import fallback, key_lock

log = structlog.get_logger(__name__)

Whose = TypeVar("Whose", bound=Hashable)
PENDING = Delivery.State.PENDING
TOO_MANY = 429
MAX_WAIT = timedelta(minutes=5)
"""Longer than an attempt or an address waits by any policy."""
CHANGE_USEFUL_FOR = timedelta(hours=1)
"""A later change event explains nothing. Pages never grow too old: their resolves must arrive."""


def claim(now: datetime, policy: Policy, free: int, per_endpoint: int, busy: Mapping[int, int]) -> list[Delivery]:
    """Claim up to `free` deliveries that are due, until the lease ends: pages first, then those that wait longest.

    `busy`: the caller's requests in flight, by endpoint. None gets more than `per_endpoint`, so that an endpoint that hangs delays no
    other.
    """
    full = [endpoint for endpoint, count in busy.items() if count >= per_endpoint]
    due = heads(now).exclude(endpoint_id__in=full).order_by("-is_page", "due_at", "id")
    chosen = choose(due.values_list("id", "endpoint_id")[: free * 4], free, per_endpoint, busy)
    if not chosen:
        return []
    mark = str(uuid4())
    with transaction.atomic():
        now = timezone.now()  # after the lock, which may have taken time: the lease begins now
        free_now = Delivery.objects.filter(_unclaimed(now), id__in=chosen, state=PENDING)
        free_now.update(claim=mark, claimed_until=now + timedelta(seconds=policy.lease_s))
        mine = list(Delivery.objects.filter(claim=mark, state=PENDING).select_related("endpoint", "destination"))
        numbers = [delivery.notice["number"] for delivery in mine if delivery.action == AUDIT]
        entries = Entry.objects.in_bulk(numbers, field_name="number")
        needed = [delivery for delivery in mine if not _drop_if_needless(delivery, entries, now)]
    for delivery in needed:
        if delivery.action == AUDIT:  # for this attempt: the row keeps the number alone
            delivery.notice = entries[delivery.notice["number"]].exported
    return needed


def heads(now: datetime) -> QuerySet[Delivery]:
    """Deliveries that may be claimed: due, unclaimed, the earliest of their key there, and the endpoint is not paused."""
    earlier = Delivery.objects.filter(
        endpoint=OuterRef("endpoint"), key=OuterRef("key"), sequence__lt=OuterRef("sequence"), state=PENDING
    )
    return (
        Delivery.objects.filter(_unclaimed(now), _over("due_at", now), state=PENDING)
        .filter(Q(endpoint__paused_until=None) | _over("endpoint__paused_until", now))
        .filter(~Exists(earlier))
    )


def _over(until: str, now: datetime) -> Q:
    """Where a wait has ended, or is longer than any: it was begun by a clock that was ahead."""
    return Q(**{f"{until}__lte": now}) | Q(**{f"{until}__gt": now + MAX_WAIT})


def _unclaimed(now: datetime) -> Q:
    return Q(claimed_until=None) | Q(claimed_until__lte=now)


def choose(due: Iterable[tuple[int, Whose]], free: int, per_endpoint: int, busy: Mapping[Whose, int]) -> list[int]:
    """Of `due` (id, endpoint) the first `free` that leave no endpoint with more than `per_endpoint`."""
    taken: Counter[Whose] = Counter(busy)
    chosen: list[int] = []
    for delivery, endpoint in due:
        if len(chosen) < free and taken[endpoint] < per_endpoint:
            taken[endpoint] += 1
            chosen.append(delivery)
    return chosen


def _drop_if_needless(delivery: Delivery, entries: Mapping[int, Entry], now: datetime) -> bool:
    reason = _needless(delivery, entries, now)
    if reason:
        delivery.state, delivery.error, delivery.settled_at = Delivery.State.DROPPED, reason, now
        delivery.claim, delivery.claimed_until = "", None
        delivery.save(update_fields=["state", "error", "settled_at", "claim", "claimed_until"])
    return bool(reason)


def _needless(delivery: Delivery, entries: Mapping[int, Entry], now: datetime) -> str:
    """Why it need not be sent; empty where it must. `entries` of the audit, by number."""
    if delivery.action == AUDIT:
        return "" if delivery.notice["number"] in entries else "it was pruned"
    if delivery.action == "change":
        return "too late to explain anything" if now - delivery.enqueued_at > CHANGE_USEFUL_FOR else ""
    same = Delivery.objects.filter(endpoint=delivery.endpoint_id, key=delivery.key)
    if delivery.action == "trigger":
        following = same.filter(sequence__gt=delivery.sequence, state=PENDING).order_by("sequence")
        action, sequence = following.values_list("action", "sequence").first() or ("", 0)
        return f"#{sequence} says the same, and more recently" if action == "trigger" else ""
    return "" if fallback.is_open(delivery) else "nothing is open there: its trigger was never delivered"


@transaction.atomic
def settle(delivery: Delivery, answer: Answer, now: datetime, policy: Policy, chance: float) -> None:
    """Write down what came of an attempt. If another sender has claimed it since, that one settles it."""
    key_lock.hold(delivery.key)
    verdict = classify(answer)
    attempts = delivery.attempts + 1
    values: dict[str, Any] = {"claim": "", "claimed_until": None, "attempts": attempts, "status": answer.status}
    if verdict == "again":
        wait_s = next_attempt_s(attempts, answer, policy, chance)
        values |= {"due_at": now + timedelta(seconds=wait_s), "error": answer.why}
        if answer.status == TOO_MANY and answer.retry_after_s:
            until = now + timedelta(seconds=pause_s(answer.retry_after_s, policy))
            Endpoint.objects.filter(pk=delivery.endpoint_id).update(paused_until=until)
    else:
        state = Delivery.State.DELIVERED if verdict == "delivered" else Delivery.State.DEAD
        values |= {"state": state, "settled_at": now, "error": "" if verdict == "delivered" else answer.why}
    if not Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=PENDING).update(**values):
        return
    if verdict == "refused":
        about = {"delivery": delivery.pk, "key": delivery.key, "action": delivery.action}
        log.error("delivery.refused", **about, destination=str(delivery.destination), reason=answer.why)
        fallback.fall_through(delivery)


@transaction.atomic
def send_again(delivery: Delivery) -> bool:
    """Send a refused delivery again. False where a later notice was sent or is in flight: it must come last."""
    key_lock.hold(delivery.key)
    later = Delivery.objects.filter(
        endpoint=delivery.endpoint_id, key=delivery.key, sequence__gt=delivery.sequence
    ).filter(Q(state=Delivery.State.DELIVERED) | Q(state=Delivery.State.PENDING, claimed_until__isnull=False))
    if later.exists():
        return False
    now = timezone.now()
    refused = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.DEAD)
    return bool(refused.update(state=Delivery.State.PENDING, settled_at=None, due_at=now, enqueued_at=now, attempts=0))
