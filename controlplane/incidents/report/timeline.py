"""An incident's timeline: what was written down of it, and what destinations answered, in the order of time."""

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify.delivery.models import Delivery

ANSWERS = {Delivery.State.DELIVERED: ("delivered", "accepted by"), Delivery.State.DEAD: ("refused", "refused by")}


class Line(NamedTuple):
    """`kind` is `Entry.Kind`'s value, or delivered or refused; `title` is it in words."""

    at: datetime
    kind: str
    title: str
    by: str
    via: str
    text: str


def timeline(incident: Incident) -> list[Line]:
    return sorted([*_entries(incident), *_answers(incident)], key=attrgetter("at"))


def keys(incident: Incident) -> list[str]:
    """All that it is, or was, known by outside."""
    return [*incident.earlier_keys, incident.notice_key]


def _entries(incident: Incident) -> Iterator[Line]:
    for one in incident.entries.all():
        yield Line(one.at, one.kind, Entry.Kind(one.kind).label, one.by, one.via, one.text)


def _answers(incident: Incident) -> Iterator[Line]:
    settled = Delivery.objects.filter(key__in=keys(incident), state__in=ANSWERS).select_related("destination")
    for one in settled.order_by("settled_at", "id"):
        kind, title = ANSWERS[Delivery.State(one.state)]
        if one.settled_at is None:
            continue
        took_s = (one.settled_at - one.enqueued_at).total_seconds()
        to = one.destination or "a removed destination"
        attempts = f"{one.attempts} attempt{'' if one.attempts == 1 else 's'}"
        why = f": {one.error}" if one.error else ""
        yield Line(
            one.settled_at,
            kind,
            f"{title} {to}",
            "weir",
            "",
            f"{one.action}, {took_s:.1f} s after it was queued, {attempts}{why}",
        )
