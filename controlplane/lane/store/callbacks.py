"""Webhooks of batches and jobs that have ended: an outbox, and the secrets that they are signed with."""

from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane.core.formatting import shortened
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy, classify, next_attempt_s
from controlplane.incidents.notify.delivery.destinations.webhook import new_secret
from controlplane.incidents.notify.delivery.send.claim import choose
from controlplane.lane.core.jobs import TO_TOPIC
from controlplane.lane.models import Callback, CallbackSecret
from controlplane.lane.store import claims

POLICY = Policy(first_s=1.0, longest_s=600.0, longest_pause_s=600.0)
"""A receiver may be away for hours: it is tried until the job is deleted."""
PER_TENANT = 8
"""Requests in flight for a tenant."""
PENDING = Callback.State.PENDING
BATCHES_FOR = timedelta(days=7)
"""How long a batch's webhook is tried: batches are not deleted."""
NOT_PUBLIC = "its URL is not https, or its address is not public"
_ERROR_CHARS = 200


def secret_for(tenant: str) -> str:
    """A new secret where the tenant has none, else nothing: it is shown once. Call inside a transaction. Raises SealError."""
    if CallbackSecret.objects.filter(tenant=tenant).exists():
        return ""
    row = CallbackSecret(tenant=tenant)
    row.secret = secret = new_secret()
    row.save()
    return secret


def claim(policy: Policy, free: int, busy: Mapping[str, int], *, to_topic: bool = False) -> list[Callback]:
    """At most `free` that are due, with their jobs, until the lease ends. `busy` counts a tenant's requests in flight. `to_topic`: also
    results that go to a topic.
    """
    full = [tenant for tenant, count in busy.items() if count >= PER_TENANT]
    began, lease = timezone.now(), timedelta(seconds=policy.lease_s)
    longest = timedelta(seconds=policy.longest_pause_s)
    due = Callback.objects.filter(claims.is_past("due_at", claims.now(), longest), state=PENDING)
    if not to_topic:
        due = due.exclude(job__callback_url__startswith=TO_TOPIC)
    candidates = due.exclude(job__tenant__in=full).order_by("due_at", "pk").values_list("pk", "job__tenant")[: free * 4]
    chosen = choose(candidates, free, PER_TENANT, busy)
    if not chosen:
        return []
    with transaction.atomic():
        mine = [row.pk for row in due.filter(pk__in=chosen).select_for_update(skip_locked=True)]
        rows = Callback.objects.filter(pk__in=mine)
        rows.update(due_at=claims.now() + lease, attempts=F("attempts") + 1)
        claimed = list(rows.select_related("job"))
    for row in claimed:
        row.due_at = began + lease  # by this process's clock, which may not be the database's
    return claimed


def settle(callback: Callback, answer: Answer, policy: Policy, chance: float) -> None:
    """Write down what came of an attempt, unless another has been made since. Tenants read it: it has nothing of what a receiver writes, or
    of what a name resolves to.
    """
    verdict, ended_at, at = classify(answer), callback.job.ended_at, claims.now()
    if callback.job.kept_until is None and ended_at is not None and ended_at + BATCHES_FOR < at and verdict == "again":
        verdict = "refused"
    rows = Callback.objects.filter(pk=callback.pk, state=PENDING, attempts=callback.attempts)
    error = "" if answer.status is not None else shortened(answer.error, _ERROR_CHARS)
    if answer.blocked:
        error = NOT_PUBLIC
    if verdict == "again":
        wait = timedelta(seconds=next_attempt_s(callback.attempts, answer, policy, chance))
        rows.update(due_at=at + wait, status=answer.status, error=error)
    else:
        state = Callback.State.DELIVERED if verdict == "delivered" else Callback.State.REFUSED
        rows.update(state=state, status=answer.status, error=error)
