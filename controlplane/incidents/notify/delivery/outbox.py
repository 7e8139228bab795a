"""Writes notices into the outbox, in the transaction of the change that they are about."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

import structlog
from django.db import transaction

from controlplane.audit.models import Entry
from controlplane.incidents.notify.core.notice import Change, Notice
from controlplane.incidents.notify.delivery.core import route, stored_notice
from controlplane.incidents.notify.delivery.core.reach import NOBODY, Reach, Sent, reach
from controlplane.incidents.notify.delivery.models import AUDIT, Delivery, Destination, Endpoint
from controlplane.incidents.notify.delivery.send import key_lock

log = structlog.get_logger(__name__)


@transaction.atomic
def put(notice: Notice | Change) -> bool:
    """See `controlplane.incidents.notify.delivery.enqueue`."""
    if isinstance(notice, Change):
        targets = route.change_targets(notice.team, candidates())
    else:
        key_lock.hold(notice.key)
        targets = route.targets(notice.action, notice.severity, notice.team, candidates(), steps(notice.key))
    write(notice, targets, _known_at(notice, targets))
    return bool(targets)


def catch_up(key: str) -> list[str]:
    """Send an open page to destinations that take it now and were never sent it; returns their names. Call inside a transaction.

    They get its newest trigger, under the same sequence. What follows goes to all.
    """
    key_lock.hold(key)
    latest_first = Delivery.objects.filter(key=key).order_by("-sequence")
    newest = trigger = latest_first.first()
    if newest is not None and newest.action != "trigger":
        trigger = latest_first.filter(action="trigger").first()
    if newest is None or trigger is None or newest.action == "resolve":
        return []
    notice = stored_notice.notice_of(trigger.notice)
    targets = route.not_sent_to(notice.severity, notice.team, candidates(), steps(key))
    write(notice, targets)
    names = [
        str(destination)
        for destination in Destination.objects.filter(pk__in=[target.destination for target in targets])
    ]
    if names:
        log.info("page.sent_to_new_destinations", key=key, destinations=names)
    return names


def destinations(key: str) -> list[str]:
    """Names of the destinations of the key's notices, without those that were removed."""
    deliveries = Delivery.objects.filter(key=key, destination__isnull=False)
    return sorted(set(deliveries.values_list("destination__name", flat=True)))


def reach_of(keys: Collection[str]) -> Mapping[str, Reach]:
    """What became of each key's triggers; NOBODY for a key without any."""
    triggers: dict[str, list[Sent]] = {}
    rows = Delivery.objects.filter(key__in=keys, action="trigger").select_related("destination")
    for row in rows:
        name = row.destination.name if row.destination else "a removed destination"
        triggers.setdefault(row.key, []).append(Sent(name, row.state, row.settled_at or row.enqueued_at, row.error))
    return {key: reach(triggers[key]) if key in triggers else NOBODY for key in keys}


def _known_at(notice: Notice | Change, targets: Sequence[route.Target]) -> int | None:
    """The endpoint where it was done, which need not be notified of it.

    None where two endpoints are of that kind, because either may be meant, and where a trigger still waits, which would open it again.
    Then all are notified; that changes nothing where it was done.
    """
    if isinstance(notice, Change) or not notice.known_to:
        return None
    ids = [target.endpoint for target in targets]
    endpoints = list(Endpoint.objects.filter(id__in=ids, kind=notice.known_to).values_list("id", flat=True))
    waits = Delivery.objects.filter(endpoint__in=endpoints, key=notice.key, state=Delivery.State.PENDING).exists()
    return endpoints[0] if len(endpoints) == 1 and not waits else None


def write(notice: Notice | Change, targets: Sequence[route.Target], known_at: int | None = None) -> None:
    """Write a delivery for each target, whatever it takes. That for the endpoint `known_at` is not sent. Raises as `enqueue` does."""
    stored_notice.checked(notice)
    Delivery.objects.bulk_create(_row(notice, target, target.endpoint == known_at) for target in targets)


def put_entry(sender: object, instance: Entry, **_: Any) -> None:
    """Of the audit, in its transaction, for each destination that takes it. What it says is read as it is sent, and not kept here."""
    takers = Destination.objects.filter(enabled=True, takes_audit=True, team=None)
    for destination, endpoint in takers.values_list("pk", "endpoint_id"):
        Delivery.objects.create(
            destination_id=destination,
            endpoint_id=endpoint,
            key=f"audit-{instance.number}",
            sequence=0,
            action=AUDIT,
            is_page=False,
            notice={"number": instance.number},
        )


def _row(notice: Notice | Change, target: route.Target, is_known: bool) -> Delivery:
    row = Delivery(
        destination_id=target.destination,
        endpoint_id=target.endpoint,
        key=notice.key if isinstance(notice, Notice) else f"change-{uuid4()}",
        sequence=notice.sequence if isinstance(notice, Notice) else 0,
        action=notice.action if isinstance(notice, Notice) else "change",
        is_page=isinstance(notice, Notice),
        notice=stored_notice.to_json(notice),
    )
    if is_known:
        row.state, row.settled_at, row.error = Delivery.State.DROPPED, row.enqueued_at, "it was done there"
    return row


def candidates(lock: bool = False) -> list[route.Candidate]:
    """`lock`: no destination changes until the transaction ends."""
    query = Destination.objects.select_related("team")
    if lock:
        query = query.select_for_update(of=("self",), no_key=True)
    return [
        route.Candidate(
            destination.id,
            destination.endpoint_id,
            destination.team.name if destination.team else "",
            destination.enabled,
            tuple(destination.severities),
            destination.takes_changes,
        )
        for destination in query
    ]


def steps(key: str) -> list[route.PastNotice]:
    """The notices of the key for each endpoint, sent or pending, in order."""
    rows = Delivery.objects.filter(key=key).order_by("sequence", "id")
    return [
        route.PastNotice(endpoint, destination, action, state == Delivery.State.DEAD)
        for endpoint, destination, action, state in rows.values_list("endpoint_id", "destination_id", "action", "state")
    ]
