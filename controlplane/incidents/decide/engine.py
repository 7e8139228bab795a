"""Turns alerts into rows, timelines and notices, in one transaction for each tick of the controller.

Queries of the store (for attributions) come before the transaction, within a deadline, and only for incidents that are about to open.
A process that is killed leaves a whole tick or none of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction

from controlplane.core.formatting import TEXT, capitalised
from controlplane.incidents.attribution import gather
from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.core.rules import RULES, Rules
from controlplane.incidents.core.silences import silencing
from controlplane.incidents.decide import opening, rows
from controlplane.incidents.decide.core import machine, steps
from controlplane.incidents.decide.core.machine import Signal
from controlplane.incidents.decide.core.steps import Step
from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify import changes, live, notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.notify.delivery import outbox
from controlplane.slo.core import words
from controlplane.slo.core.alert import Alert

log = structlog.get_logger(__name__)


def observe(alerts: Sequence[Alert], now: datetime, fence: Callable[[], None] = lambda: None) -> None:
    """Bring incidents of objectives up to date with the alerts, and put their notices into the outbox. `now` is aware.

    `fence` is called first in each transaction. It raises if another process leads by now.
    """
    changes.announce(now)
    judged = {alert.key: alert for alert in alerts}
    known = rows.of_objectives()
    opens = any(alert.state == "firing" and alert.key not in known for alert in alerts)
    planned = _decide(known, alerts, now, rows.takes(known)) if opens else []
    gathered = gather.gather([judged[step.key] for step in planned if isinstance(step, steps.Opened)])
    with transaction.atomic():
        fence()
        locked = rows.of_objectives(lock=True)
        taken = _decide(locked, alerts, now, rows.takes(locked, lock=True))
        _Tick(locked, judged, gathered, now, rows.down_now()).take(taken)
    _fill_in(judged, now, fence)
    _measure(judged, now, fence)


@transaction.atomic
def observe_components(alerts: Sequence[ComponentAlert], now: datetime, rules: Rules) -> None:
    """The same for components. It needs only the database: neither the store nor a component that may be down."""
    locked = rows.of_components(lock=True)
    taken = _decide(locked, alerts, now, rows.takes(locked, lock=True), rules)
    _Tick(locked, {alert.key: alert for alert in alerts}, {}, now).take(taken)


def _decide(
    known: Mapping[str, Incident], alerts: Sequence[Signal], now: datetime, takes: machine.Takes, rules: Rules = RULES
) -> list[Step]:
    return machine.decide(
        map(rows.tracked, known.values()),
        alerts,
        rows.silences(now),
        rows.cooling(now),
        now,
        rules,
        takes=takes,
        breakdowns=rows.breakdowns(now),
    )


def _fill_in(judged: Mapping[str, Alert], now: datetime, fence: Callable[[], None]) -> None:
    """Fill in attributions that failed when the incident opened, while it is open."""
    without = Incident.open_ones().filter(attribution__isnull=True, component="", opened_at__lt=now)
    for key, gathered in gather.late(list(without.order_by("-opened_at")), judged).items():
        with transaction.atomic():
            fence()
            row = Incident.open_ones().select_for_update().filter(alert_key=key).first()
            if row is None:  # resolved by a person during the query
                continue
            row.attribution, row.attribution_missing = gathered.attribution, ""
            row.since, row.changes = gather.since(gathered.attribution), gathered.changes
            row.summary = page_text.summary(notices.facts(row))
            row.save()
            row.entries.create(at=now, kind=Entry.Kind.ATTRIBUTED, text="The store answered: attribution filled in.")
            live.changed()


def _measure(judged: Mapping[str, Alert], now: datetime, fence: Callable[[], None]) -> None:
    """Update the figure in the text of open incidents."""
    now_ns = int(now.timestamp()) * 10**9
    seen = {key: alert for key, alert in judged.items() if alert.state != "unknown"}
    for key, value in gather.present(list(rows.of_objectives().values()), seen, now_ns).items():
        with transaction.atomic():
            fence()
            row = Incident.open_ones().select_for_update().filter(alert_key=key).first()
            if row is not None:
                opened = row.attribution["value"] if row.attribution else None
                before = row.burning.get("worst", value if opened is None else opened)
                worst = page_text.worse(row.definition, before, value)
                row.burning = {**row.burning, "value": value, "value_at_ns": now_ns, "worst": worst}
                row.summary = page_text.summary(notices.facts(row))
                row.save(update_fields=["burning", "summary"])


class _Tick:
    """Turns the steps of one tick into rows, timelines and notices."""

    def __init__(
        self,
        known: dict[str, Incident],
        judged: Mapping[str, Signal],
        gathered: Mapping[str, gather.Found],
        now: datetime,
        down: Sequence[rows.Down] = (),
    ) -> None:
        self._rows, self._judged, self._gathered, self._now, self._down = known, judged, gathered, now, down
        self._take: dict[type[Any], Callable[[Any], None]] = {
            steps.Opened: self._opened,
            steps.Escalated: self._escalated,
            steps.Downgraded: self._downgraded,
            steps.Outage: self._outage,
            steps.Signalled: self._signalled,
            steps.Missing: self._missing,
            steps.NotSent: self._not_sent,
            steps.Queued: self._queued,
            steps.Resolved: self._resolved,
            steps.Cooled: self._cooled,
        }

    def take(self, taken: Sequence[Step]) -> None:
        for key, row in self._rows.items():
            if key in self._judged:
                row.burning = {**opening.present(self._judged[key], row), **self._down_in(row)}
        for step in taken:
            before = rows.tracked(self._rows[step.key]) if step.key in self._rows else None
            self._take[type(step)](step)
            after = steps.advance(before, step)
            if after is not None:
                rows.write_back(self._rows[step.key], after)
        for row in self._rows.values():
            row.summary = page_text.summary(notices.facts(row))
        stepped = {step.key for step in taken}
        for key in stepped & self._rows.keys():
            self._rows[key].save()
        others = [row for key, row in self._rows.items() if key not in stepped]
        Incident.objects.bulk_update(others, ["burning", "summary"])
        if _catch_up(self._rows.values(), self._now) or taken:
            live.changed()

    def _opened(self, step: steps.Opened) -> None:
        before = Incident.objects.filter(alert_key=step.key).order_by("-id").first()
        row = opening.incident(self._judged[step.key], self._gathered.get(step.key))
        row.notice_key, row.severity, row.opened_at = rows.new_notice_key(row), step.severity, self._now
        row.burning = {**row.burning, **self._down_in(row)}
        row.save()
        self._rows[step.key] = row
        again = f" Follows #{before.pk}." if before else ""
        self._enter(
            row, Entry.Kind.OPENED, f"Opened as a {step.severity}: {page_text.state(notices.facts(row))}.{again}"
        )
        log.info("incident.opened", key=step.key, incident=row.pk, severity=step.severity)

    def _escalated(self, step: steps.Escalated) -> None:
        row = self._rows[step.key]
        row.status, row.acknowledged_at, row.acknowledged_by = Incident.Status.OPEN, None, ""
        self._enter(row, Entry.Kind.ESCALATED, f"From ticket to page: {page_text.burn_text(row.burning)}.")

    def _downgraded(self, step: steps.Downgraded) -> None:
        said = "Fires only as a ticket now." if step.since else "Fires as a page again."
        self._enter(self._rows[step.key], Entry.Kind.DOWNGRADED, said)

    def _outage(self, step: steps.Outage) -> None:
        said = (
            "Most requests fail: latency pages of its scope are not sent."
            if step.lasts
            else "Fewer than half of the requests fail: latency pages of its scope are sent again."
        )
        self._enter(self._rows[step.key], Entry.Kind.SIGNAL, said)

    def _signalled(self, step: steps.Signalled) -> None:
        row = self._rows[step.key]
        said = {
            "firing": "Fires again.",
            "quiet": "No longer fires: resolves if it stays so.",
            "unknown": "Data is missing or too old: stays open until there is new data.",
        }[step.state]
        if step.by:
            said = (
                f"{rows.name_of(step.by)} is up again: the failures that still count are of the time when it was down."
            )
        elif row.component and step.state != "unknown":
            said = f"{capitalised(page_text.state(notices.facts(row)))}."
        self._enter(row, Entry.Kind.SIGNAL, said)

    def _missing(self, step: steps.Missing) -> None:
        if step.since:
            row, lasts = self._rows[step.key], TEXT.duration(step.for_s)
            said = f"No longer in the data: {words.scope(row.scope)}. Resolves if that stays so for {lasts}."
            self._enter(row, Entry.Kind.SIGNAL, said)

    def _not_sent(self, step: steps.NotSent) -> None:
        row = self._rows[step.key]
        if step.withheld is None:
            self._enter(row, Entry.Kind.RELEASED, "The reason not to send it has ended.")
        else:
            self._enter(row, Entry.Kind.WITHHELD, f"{rows.not_sent(step.withheld)}.")
            if step.withheld.kind == "nobody":
                log.error(
                    "page.not_sent",
                    incident=row.pk,
                    key=step.key,
                    reason="no destination takes it",
                    severity=step.withheld.by,
                )

    def _queued(self, step: steps.Queued) -> None:
        """A page gets another key than the ticket before it: that may be acknowledged, and would then page nobody."""
        row = self._rows[step.key]
        if step.before:
            notices.resolve(row, self._now, "became a page")
            row.earlier_keys = [*row.earlier_keys, row.notice_key]
            row.notice_key, row.sequence = rows.new_notice_key(row), 0
        notices.trigger(row, self._now)
        self._enter(
            row, Entry.Kind.QUEUED, f"As a {step.severity}, for {notices.destination_names(row)}: {row.summary}"
        )

    def _resolved(self, step: steps.Resolved) -> None:
        row = self._rows.pop(step.key)
        why = _why_over(step, row)
        row.status, row.resolved_at, row.resolved_by = Incident.Status.RESOLVED, self._now, "weir"
        row.withheld = row.withheld_by = ""
        if step.queued_as:
            notices.resolve(row, self._now, why)
        self._enter(row, Entry.Kind.RESOLVED, f"{capitalised(why)}.")
        row.save()

    def _cooled(self, step: steps.Cooled) -> None:
        Incident.objects.filter(alert_key=step.key, cool_until__isnull=False).update(cool_until=None)

    def _down_in(self, row: Incident) -> dict[str, Any]:
        return {} if row.component else {"down": [each.said for each in self._down if each.concerns(row.scope)]}

    def _enter(self, row: Incident, kind: Entry.Kind, said: str) -> None:
        row.entries.create(at=self._now, kind=kind, text=said)


def _catch_up(incidents: Iterable[Incident], now: datetime) -> bool:
    """Send open incidents to destinations that take them only since they opened; whether there were any.

    Acknowledged and silenced incidents are not sent.
    """
    sent_ones = [
        incident
        for incident in incidents
        if incident.status == Incident.Status.OPEN and incident.queued_as == incident.severity
    ]
    silences = rows.silences(now) if sent_ones else []
    sent = False
    for incident in sent_ones:
        if silencing(silences, rows.subject(incident), now) is not None:
            continue
        names = outbox.catch_up(incident.notice_key)
        if names:
            said = f"As a {incident.severity}, for {', '.join(names)}: new, enabled or changed since it opened."
            incident.entries.create(at=now, kind=Entry.Kind.QUEUED, text=said)
            sent = True
    return sent


def _why_over(step: steps.Resolved, row: Incident) -> str:
    match step.why:
        case "explained":
            return f"{rows.name_of(step.by)} is up again, and the failures that still count are of the time when it was down"
        case "quiet" if row.component:
            return page_text.state(notices.facts(row))
        case "changed" if row.component.startswith("policy:"):
            return "it is no longer part of the fleet, was disabled, or no policy in force is about it"
        case "changed" if row.component:
            return "it is no longer part of the fleet, or was disabled"
        case "quiet":
            return "it no longer fires"
        case "silent":
            return "no requests come, so nothing burns"
        case "downgraded":
            return "it fires only as a ticket now, and goes on as one"
        case "missing":
            lasted = TEXT.duration(step.for_s)
            return f"no longer in the data for {lasted}, its longest window: {words.scope(row.scope)}"
    return "its objective was changed, and no longer judges this scope"
