"""What people do with an incident, here or in PagerDuty: acknowledge, resolve, open again, write notes.

Each function returns whether it changed anything: the same event twice changes it once.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.incidents.core import runbook
from controlplane.incidents.core.rules import RULES
from controlplane.incidents.decide import rows
from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify import live, notices
from controlplane.slo.models import StoredObjective

MAX_NOTE_CHARS = 10_000  # characters
UNDO_FOR = timedelta(minutes=5)
BY_ITSELF = "weir"
"""`resolved_by` of an incident that no person resolved."""
RETIRED = "Its objective was deleted or disabled."


def acknowledge(key: str, by: str, at: datetime, note: str = "", via: str = "") -> bool:
    """Somebody works on it. `key` is the notice's. `via` is the kind of destination that it was done in, such as "pagerduty": the
    others are notified."""

    def change(incident: Incident) -> bool:
        if incident.status != Incident.Status.OPEN:
            return False
        incident.status = Incident.Status.ACKNOWLEDGED
        incident.acknowledged_at, incident.acknowledged_by = at, by[:200]
        _enter(incident, Entry.Kind.ACKNOWLEDGED, by, at, note, via)
        if incident.queued_as:
            notices.acknowledge(incident, at, known_to=via)
        return True

    return _changed(key, change)


def unacknowledge(key: str, by: str, at: datetime, text: str) -> bool:
    """Nobody works on it any more, unless somebody has acknowledged it since `at`. `text` is added to the timeline either way."""

    def change(incident: Incident) -> bool:
        _enter(incident, Entry.Kind.NOTE, by, at, text, "")
        if incident.status == Incident.Status.ACKNOWLEDGED and (incident.acknowledged_at or at) <= at:
            incident.status = Incident.Status.OPEN
            incident.acknowledged_at, incident.acknowledged_by = None, ""
        return True

    return _changed(key, change)


def resolve(key: str, by: str, at: datetime, note: str = "", via: str = "", cools: bool = True) -> bool:
    """A person says that it is over. A new incident opens if it still fires after the cool-down, or at once without one (`cools`)."""

    def change(incident: Incident) -> bool:
        if not incident.is_open:
            return False
        incident.status = Incident.Status.RESOLVED
        incident.resolved_at, incident.resolved_by = at, by[:200]
        if cools and incident.signal != Incident.Signal.QUIET:
            incident.cool_until = at + RULES.cool_down
        _enter(incident, Entry.Kind.RESOLVED, by, at, note, via)
        if incident.queued_as:
            notices.resolve(incident, at, f"resolved by {by}", known_to=via)
        return True

    return _changed(key, change)


@transaction.atomic
def retire(now: datetime, fence: Callable[[], None] = lambda: None) -> int:
    """Resolve incidents whose objective was deleted or disabled; returns how many. Nothing else would. `fence`: as in `engine.observe`."""
    fence()
    judged = StoredObjective.objects.filter(enabled=True).values("slug")
    left = Incident.open_ones().filter(component="").exclude(objective__in=judged)
    return sum(resolve(key, BY_ITSELF, now, RETIRED, cools=False) for key in left.values_list("notice_key", flat=True))


def why_not_reopened(incident: Incident, now: datetime) -> str:
    """Why it cannot be opened again, as a sentence; empty where it can."""
    if incident.is_open:
        return "It is open."
    if incident.resolved_at is None or incident.resolved_by == BY_ITSELF:
        return "It resolved by itself. If it fires again, a new incident opens."
    other = Incident.open_ones().filter(alert_key=incident.alert_key).first()
    if other is not None:
        return f"#{other.pk} is open for the same."
    cools = incident.cool_until is not None and now < incident.cool_until
    if not cools and now - incident.resolved_at > UNDO_FOR:
        return "It was resolved too long ago. If it fires, a new incident opens."
    return ""


def reopen(key: str, by: str, at: datetime, note: str = "") -> bool:
    """Undo a person's resolve. That is possible for UNDO_FOR, and during the cool-down while it still fires.

    The next tick sends it again, under a new key: what was resolved at a destination stays resolved there.
    """

    def change(incident: Incident) -> bool:
        if why_not_reopened(incident, at):
            return False
        said = f"It had been resolved by {incident.resolved_by}. The next tick sends it again, if it still fires."
        incident.status, incident.queued_as = Incident.Status.OPEN, ""
        incident.resolved_at, incident.resolved_by, incident.cool_until = None, "", None
        incident.acknowledged_at, incident.acknowledged_by = None, ""
        incident.withheld = incident.withheld_by = ""
        incident.downgraded_since = incident.missing_since = None
        incident.quiet_since = at if incident.signal == Incident.Signal.QUIET else None
        incident.earlier_keys = [*incident.earlier_keys, incident.notice_key]
        incident.notice_key, incident.sequence = rows.new_notice_key(incident), 0
        _enter(incident, Entry.Kind.REOPENED, by, at, " ".join(part for part in (said, note.strip()) if part), "")
        return True

    return _changed(key, change)


def note(key: str, by: str, at: datetime, text: str) -> bool:
    """Add to the timeline, also of a resolved incident."""

    def change(incident: Incident) -> bool:
        if text.strip():
            _enter(incident, Entry.Kind.NOTE, by, at, text.strip(), "")
        return bool(text.strip())

    return _changed(key, change)


def tick(key: str, by: str, at: datetime, number: int, done: bool = True) -> bool:
    """Tick a step of the runbook off, or say that it is open again. False where it is so already, or there is no such step."""

    def change(incident: Incident) -> bool:
        step = next((step for step in runbook.steps(incident.runbook_text) if step.number == number), None)
        if step is None or (str(number) in incident.steps_done) == done:
            return False
        others = {name: value for name, value in incident.steps_done.items() if name != str(number)}
        incident.steps_done = others | ({str(number): {"by": by[:200], "at": at.isoformat()}} if done else {})
        _enter(incident, Entry.Kind.STEP, by, at, f"{number} {'done' if done else 'open again'}: {step.words}", "")
        return True

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
    incident.entries.create(kind=kind, by=by[:200], at=at, text=text[:MAX_NOTE_CHARS], via=via[:50])
