"""A tick of the controller, as incidents see it: what the alerts say becomes rows, timelines and notices, in one transaction.

What takes time (asking the store whose budget was burned by what) is done before the transaction, within a deadline, for those
incidents alone that are about to open. A kill at any moment leaves a whole tick or none of it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import structlog
from django.db import transaction

from controlplane.incidents import changes, frozen, live, machine, rows, telling, text
from controlplane.incidents.attribution import gather
from controlplane.incidents.machine import Step
from controlplane.incidents.models import Entry, Incident
from controlplane.slo import words
from controlplane.slo.alert import Alert

log = structlog.get_logger(__name__)


def observe(alerts: Sequence[Alert], now: datetime) -> None:
    """Bring incidents up to date with the alerts, and put into the outbox what is to be told. `now` is aware."""
    changes.announce(now)
    judged = {alert.key: alert for alert in alerts}
    planned = _decide(rows.open_rows(), alerts, now)
    opening = [judged[step.key] for step in planned if isinstance(step, machine.Opened)]
    found = gather.gather(opening)
    with transaction.atomic():
        locked = rows.open_rows(lock=True)
        steps = _decide(locked, alerts, now)
        _Tick(locked, judged, found, now).take(steps)
        if steps:
            live.changed()
    _fill_in(judged, now)


def _decide(known: Mapping[str, Incident], alerts: Sequence[Alert], now: datetime) -> list[Step]:
    return machine.decide(map(rows.tracked, known.values()), alerts, rows.silences(now), rows.cooling(now), now)


def _fill_in(judged: Mapping[str, Alert], now: datetime) -> None:
    """Attributions that were missing at opening, for those that are open still: later is better than never."""
    without = Incident.objects.exclude(status=Incident.Status.RESOLVED).filter(
        attribution__isnull=True, opened_at__lt=now
    )
    for key, found in gather.late(list(without.order_by("-opened_at")), judged).items():
        with transaction.atomic():
            row = Incident.objects.exclude(status=Incident.Status.RESOLVED).select_for_update().get(alert_key=key)
            row.attribution, row.attribution_missing = found.attribution, ""
            row.since = gather.since(found.attribution)
            row.summary = text.summary(telling.facts(row))
            row.save()
            row.entries.create(at=now, kind=Entry.Kind.ATTRIBUTED, text="The store answered: attribution filled in.")
            live.changed()


class _Tick:
    """Steps become rows, timeline and notices."""

    def __init__(
        self, known: dict[str, Incident], judged: Mapping[str, Alert], found: Mapping[str, gather.Found], now: datetime
    ) -> None:
        self._rows, self._judged, self._found, self._now = known, judged, found, now
        self._take: dict[type[Any], Callable[[Any], None]] = {
            machine.Opened: self._opened,
            machine.Escalated: self._escalated,
            machine.Eased: self._eased,
            machine.Outage: self._outage,
            machine.Signalled: self._signalled,
            machine.Gone: self._gone,
            machine.Held: self._held,
            machine.Told: self._told,
            machine.Resolved: self._resolved,
            machine.Cooled: self._cooled,
        }

    def take(self, steps: Sequence[Step]) -> None:
        for key, row in self._rows.items():
            if key in self._judged and self._judged[key].state != "unknown":
                row.burning = frozen.burning(self._judged[key])
        for step in steps:
            before = rows.tracked(self._rows[step.key]) if step.key in self._rows else None
            self._take[type(step)](step)
            after = machine.advance(before, step)
            if after is not None:
                rows.write_back(self._rows[step.key], after)
        stepped = {step.key for step in steps}
        for key in stepped & self._rows.keys():
            self._rows[key].save()
        Incident.objects.bulk_update([row for key, row in self._rows.items() if key not in stepped], ["burning"])

    def _opened(self, step: machine.Opened) -> None:
        alert = self._judged[step.key]
        objective, found = alert.objective, self._found.get(step.key) or gather.Found(missing=gather.NO_TIME)
        before = Incident.objects.filter(alert_key=step.key).order_by("-id").first()
        row = Incident(
            alert_key=step.key,
            notice_key=_notice_key(objective.slug),
            objective=objective.slug,
            objective_name=objective.name,
            promise=frozen.promise(objective),
            scope=dict(alert.scope),
            owner=objective.owner,
            runbook=objective.runbook,
            labels=dict(objective.labels),
            group=text.group(alert.scope, objective.owner),
            severity=step.severity,
            opened_at=self._now,
            since=gather.since(found.attribution) if found.attribution else None,
            burning=frozen.burning(alert),
            opened_with=frozen.burning(alert),
            attribution=found.attribution,
            attribution_missing=found.missing,
        )
        row.summary = text.summary(telling.facts(row))
        row.save()
        self._rows[step.key] = row
        again = f" Follows #{before.pk}." if before else ""
        self._enter(row, Entry.Kind.OPENED, f"Opened as a {step.severity}: {text.burn_text(row.burning)}.{again}")
        log.info("incident opened", key=step.key, incident=row.pk, severity=step.severity)

    def _escalated(self, step: machine.Escalated) -> None:
        row = self._rows[step.key]
        row.status, row.acknowledged_at, row.acknowledged_by = Incident.Status.OPEN, None, ""
        self._enter(row, Entry.Kind.ESCALATED, f"From ticket to page: {text.burn_text(row.burning)}.")

    def _eased(self, step: machine.Eased) -> None:
        said = "No longer burns at the speed of a page." if step.since else "Burns at the speed of a page again."
        self._enter(self._rows[step.key], Entry.Kind.EASED, said)

    def _outage(self, step: machine.Outage) -> None:
        self._enter(
            self._rows[step.key], Entry.Kind.SIGNAL, "Most requests fail: latency pages of its scope are held back."
        )

    def _signalled(self, step: machine.Signalled) -> None:
        said = {
            "firing": "Fires again.",
            "quiet": "Quiet: resolves once it has stayed so.",
            "unknown": "Data is missing or too old: nothing is resolved until it is back.",
        }
        self._enter(self._rows[step.key], Entry.Kind.SIGNAL, said[step.state])

    def _gone(self, step: machine.Gone) -> None:
        if step.since:
            row, lasts = self._rows[step.key], text.duration(step.for_s)
            said = f"No longer in the data: {words.scope(row.scope)}. Resolves by itself once that has been so for {lasts}."
            self._enter(row, Entry.Kind.SIGNAL, said)

    def _held(self, step: machine.Held) -> None:
        row = self._rows[step.key]
        if step.withheld is None:
            self._enter(row, Entry.Kind.RELEASED, "Nothing holds it back any more.")
        else:
            self._enter(row, Entry.Kind.HELD, f"Nobody is told: {rows.why_untold(step.withheld)}.")

    def _told(self, step: machine.Told) -> None:
        """A page is known outside under another key than the ticket before it, which may be acknowledged: nobody would hear of it."""
        row = self._rows[step.key]
        if step.before:
            telling.resolve(row, self._now, "became a page")
            row.earlier_keys = [*row.earlier_keys, row.notice_key]
            row.notice_key, row.sequence = _notice_key(row.objective), 0
        telling.trigger(row, self._now)
        self._enter(row, Entry.Kind.TOLD, f"As a {step.severity}: {row.summary}")

    def _resolved(self, step: machine.Resolved) -> None:
        row = self._rows.pop(step.key)
        why = _why_over(step, row)
        row.status, row.resolved_at, row.resolved_by = Incident.Status.RESOLVED, self._now, "weir"
        row.withheld = row.withheld_by = ""
        if step.told:
            telling.resolve(row, self._now, why)
        self._enter(row, Entry.Kind.RESOLVED, f"{why[:1].upper()}{why[1:]}.")
        row.save()

    def _cooled(self, step: machine.Cooled) -> None:
        Incident.objects.filter(alert_key=step.key, cool_until__isnull=False).update(cool_until=None)

    def _enter(self, row: Incident, kind: Entry.Kind, said: str) -> None:
        row.entries.create(at=self._now, kind=kind, text=said)


def _why_over(step: machine.Resolved, row: Incident) -> str:
    match step.why:
        case "quiet":
            return "quiet long enough"
        case "silent":
            return "no request of it comes any more, so nothing burns"
        case "eased":
            return "burns slower now, and goes on as a ticket"
        case "gone":
            lasted = text.duration(step.for_s)
            return f"not in the data for {lasted}, as long as its windows ({words.scope(row.scope)}): nothing is left to burn"
    return "its objective was changed, and does not judge this scope any more"


def _notice_key(slug: str) -> str:
    """A new one each time: what was resolved outside stays resolved."""
    return f"weir/{slug[:200]}/{uuid4().hex}"
