"""The outbox: what is to be told is written in the transaction that makes it true."""

from collections.abc import Sequence
from uuid import uuid4

import structlog
from django.db import transaction

from controlplane.incidents.delivery import route, stored
from controlplane.incidents.delivery.models import Delivery, Destination, Endpoint
from controlplane.incidents.notice import Change, Notice

log = structlog.get_logger(__name__)


@transaction.atomic
def put(notice: Notice | Change) -> None:
    """See `controlplane.incidents.delivery.enqueue`."""
    if isinstance(notice, Change):
        targets = route.change_targets(notice.team, candidates())
    else:
        targets = route.targets(notice.action, notice.severity, notice.team, candidates(), steps(notice.key))
        if not targets and notice.action == "trigger":
            log.warning("nobody is told of a page: no enabled destination takes it", key=notice.key, team=notice.team)
    write(notice, targets, _told_already(notice, targets))


def _told_already(notice: Notice | Change, targets: Sequence[route.Target]) -> int | None:
    """The one endpoint in which it was done, where nothing else is to be said of the key.

    With two of that kind nobody knows which it was, and a trigger that still waits would open it again: then all are told, and what
    one knows already changes nothing there.
    """
    if isinstance(notice, Change) or not notice.known_to:
        return None
    ids = [target.endpoint for target in targets]
    found = list(Endpoint.objects.filter(id__in=ids, kind=notice.known_to).values_list("id", flat=True))
    waits = Delivery.objects.filter(endpoint__in=found, key=notice.key, state=Delivery.State.PENDING).exists()
    return found[0] if len(found) == 1 and not waits else None


def write(notice: Notice | Change, targets: Sequence[route.Target], told_already: int | None = None) -> None:
    """One delivery for each target, whatever it takes; one that is not to be sent for the endpoint that knows. Raises as `enqueue`
    does."""
    stored.checked(notice)
    Delivery.objects.bulk_create(_row(notice, target, target.endpoint == told_already) for target in targets)


def _row(notice: Notice | Change, target: route.Target, is_known: bool) -> Delivery:
    row = Delivery(
        destination_id=target.destination,
        endpoint_id=target.endpoint,
        key=notice.key if isinstance(notice, Notice) else f"change-{uuid4()}",
        sequence=notice.sequence if isinstance(notice, Notice) else 0,
        action=notice.action if isinstance(notice, Notice) else "change",
        is_page=isinstance(notice, Notice),
        notice=stored.to_json(notice),
    )
    if is_known:
        row.state, row.settled_at, row.error = Delivery.State.DROPPED, row.enqueued_at, "it was done there"
    return row


def candidates() -> list[route.Candidate]:
    return [
        route.Candidate(
            one.id,
            one.endpoint_id,
            one.team.name if one.team else "",
            one.enabled,
            tuple(one.severities),
            one.takes_changes,
        )
        for one in Destination.objects.select_related("team")
    ]


def steps(key: str) -> list[route.Step]:
    """What each endpoint was told of the key or is about to be, in order."""
    rows = Delivery.objects.filter(key=key).order_by("sequence", "id")
    return [
        route.Step(endpoint, destination, action, state == Delivery.State.DEAD)
        for endpoint, destination, action, state in rows.values_list("endpoint_id", "destination_id", "action", "state")
    ]
