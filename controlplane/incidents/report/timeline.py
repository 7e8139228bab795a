"""Makes an incident's timeline of its entries and of the answers of destinations, in order of time."""

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify.delivery.models import Delivery

ANSWERS = {Delivery.State.DELIVERED: ("delivered", "accepted by"), Delivery.State.DEAD: ("refused", "refused by")}


class Line(NamedTuple):
    """`kind`: a value of `Entry.Kind`, or delivered or refused. `title`: the kind in words."""

    at: datetime
    kind: str
    title: str
    by: str
    via: str
    text: str


def timeline(incident: Incident) -> list[Line]:
    entries = [
        Line(entry.at, entry.kind, Entry.Kind(entry.kind).label, entry.by, entry.via, entry.text)
        for entry in incident.entries.all()
    ]
    return sorted([*entries, *_answers(incident)], key=attrgetter("at"))


def keys(incident: Incident) -> list[str]:
    """Its keys at destinations, the present one last."""
    return [*incident.earlier_keys, incident.notice_key]


def _answers(incident: Incident) -> Iterator[Line]:
    settled = Delivery.objects.filter(key__in=keys(incident), state__in=ANSWERS).select_related("destination")
    for delivery in settled.order_by("settled_at", "id"):
        kind, title = ANSWERS[Delivery.State(delivery.state)]
        if delivery.settled_at is None:
            continue
        took_s = (delivery.settled_at - delivery.enqueued_at).total_seconds()
        to = delivery.destination or "a removed destination"
        attempts = f"{delivery.attempts} attempt{'' if delivery.attempts == 1 else 's'}"
        why = f": {delivery.error}" if delivery.error else ""
        yield Line(
            delivery.settled_at,
            kind,
            f"{title} {to}",
            "weir",
            "",
            f"{delivery.action}, {took_s:.1f} s after it was queued, {attempts}{why}",
        )
