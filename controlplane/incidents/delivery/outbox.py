"""The outbox: what is to be told is written in the transaction that makes it true."""

from uuid import uuid4

import structlog
from django.db import transaction

from controlplane.incidents.delivery import route, stored
from controlplane.incidents.delivery.models import Delivery, Destination
from controlplane.incidents.notice import Change, Notice

log = structlog.get_logger(__name__)


@transaction.atomic
def put(notice: Notice | Change) -> None:
    """See `controlplane.incidents.delivery.enqueue`."""
    stored.checked(notice)
    key = notice.key if isinstance(notice, Notice) else f"change-{uuid4()}"
    sequence = notice.sequence if isinstance(notice, Notice) else 0
    action = notice.action if isinstance(notice, Notice) else "change"
    targets = (
        route.targets(notice.action, notice.severity, notice.team, candidates(), steps(key))
        if isinstance(notice, Notice)
        else route.change_targets(notice.team, candidates())
    )
    Delivery.objects.bulk_create(
        Delivery(
            destination_id=target.destination,
            endpoint_id=target.endpoint,
            key=key,
            sequence=sequence,
            action=action,
            is_page=action != "change",
            notice=stored.to_json(notice),
        )
        for target in targets
    )
    if not targets and action == "trigger":
        log.warning("nobody is told of a page: no enabled destination takes it", key=key, team=notice.team)


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
