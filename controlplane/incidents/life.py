"""What people do with an incident, here or in PagerDuty: acknowledge, resolve, write notes.

Each answers whether it changed anything, so that the same event heard twice is told once.
"""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from controlplane.incidents import live, telling
from controlplane.incidents.machine import RULES
from controlplane.incidents.models import Entry, Incident

LONGEST_NOTE = 10_000  # characters


def acknowledge(key: str, by: str, at: datetime, note: str = "", via: str = "") -> bool:
    """Somebody is on it. `key` is the notice's; `via` is the kind of destination that it was done in, such as
    "pagerduty": the others are told."""

    def change(incident: Incident) -> bool:
        if incident.status != Incident.Status.OPEN:
            return False
        incident.status = Incident.Status.ACKNOWLEDGED
        incident.acknowledged_at, incident.acknowledged_by = at, by[:200]
        _enter(incident, Entry.Kind.ACKNOWLEDGED, by, at, note, via)
        if incident.told:
            telling.acknowledge(incident, at, known_to=via)
        return True

    return _changed(key, change)


def resolve(key: str, by: str, at: datetime, note: str = "", via: str = "") -> bool:
    """It is over, somebody says. Where it fires still after the cool-down, a new incident opens."""

    def change(incident: Incident) -> bool:
        if not incident.is_open:
            return False
        incident.status = Incident.Status.RESOLVED
        incident.resolved_at, incident.resolved_by = at, by[:200]
        if incident.signal != Incident.Signal.QUIET:
            incident.cool_until = at + RULES.cool_down
        _enter(incident, Entry.Kind.RESOLVED, by, at, note, via)
        if incident.told:
            telling.resolve(incident, at, f"resolved by {by}", known_to=via)
        return True

    return _changed(key, change)


def note(key: str, by: str, at: datetime, text: str) -> bool:
    """Add to the timeline, of closed incidents too."""

    def change(incident: Incident) -> bool:
        if text.strip():
            _enter(incident, Entry.Kind.NOTE, by, at, text.strip(), "")
        return bool(text.strip())

    return _changed(key, change)


@transaction.atomic
def _changed(key: str, change: Callable[[Incident], bool]) -> bool:
    incident = Incident.objects.select_for_update().filter(notice_key=key).first()
    if incident is None or not change(incident):
        return False
    incident.save()
    live.changed()
    return True


def _enter(incident: Incident, kind: Entry.Kind, by: str, at: datetime, text: str, via: str) -> None:
    incident.entries.create(kind=kind, by=by[:200], at=at, text=text[:LONGEST_NOTE], via=via[:50])
