"""A tick of the controller, as incidents see it: what the alerts say becomes rows, timelines and notices, in one transaction.

What takes time (asking the store whose budget was burned by what) is done before the transaction, within a deadline, for those
incidents alone that are about to open. A kill at any moment leaves a whole tick or none of it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction

from controlplane.core.formatting import TEXT
from controlplane.incidents.act import changes
from controlplane.incidents.attribution import gather
from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.decide import opening, rows
from controlplane.incidents.decide.core import machine, steps
from controlplane.incidents.decide.core.machine import Signal
from controlplane.incidents.decide.core.steps import RULES, Rules, Step
from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify import live, notices
from controlplane.incidents.notify.core import page_text
from controlplane.slo.core import words
from controlplane.slo.core.alert import Alert

log = structlog.get_logger(__name__)


def observe(alerts: Sequence[Alert], now: datetime, fence: Callable[[], None] = lambda: None) -> None:
    """Bring incidents of objectives up to date with the alerts, and put into the outbox what is to be told. `now` is aware.

    `fence` is called first in each transaction, and raises where another process does this by now.
    """
    changes.announce(now)
    judged = {alert.key: alert for alert in alerts}
    known = rows.of_objectives()
    planned = _decide(known, alerts, now, notices.takes(known))
    found = gather.gather([judged[step.key] for step in planned if isinstance(step, steps.Opened)])
    with transaction.atomic():
        fence()
        locked = rows.of_objectives(lock=True)
        taken = _decide(locked, alerts, now, notices.takes(locked, lock=True))
        _Tick(locked, judged, found, now, rows.down_now()).take(taken)
    _fill_in(judged, now, fence)
    _measure(judged, now, fence)


@transaction.atomic
def observe_components(alerts: Sequence[ComponentAlert], now: datetime, rules: Rules) -> None:
    """The same of components. It asks the database alone: neither the store nor a component that may be down."""
    locked = rows.component_remedies(lock=True)
    taken = _decide(locked, alerts, now, notices.takes(locked, lock=True), rules)
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
    """Attributions that were missing at opening, for those that are open still: later is better than never."""
    without = Incident.objects.exclude(status=Incident.Status.RESOLVED).filter(
        attribution__isnull=True, component="", opened_at__lt=now
    )
    for key, found in gather.late(list(without.order_by("-opened_at")), judged).items():
        with transaction.atomic():
            fence()
            open_ones = Incident.objects.exclude(status=Incident.Status.RESOLVED).select_for_update()
            row = open_ones.filter(alert_key=key).first()
            if row is None:  # resolved by a person while the store was asked
                continue
            row.attribution, row.attribution_missing = found.attribution, ""
            row.since = gather.since(found.attribution)
            row.summary = page_text.summary(notices.facts(row))
            row.save()
            row.entries.create(at=now, kind=Entry.Kind.ATTRIBUTED, text="The store answered: attribution filled in.")
            live.changed()


def _measure(judged: Mapping[str, Alert], now: datetime, fence: Callable[[], None]) -> None:
    """The figure in the text follows the present while the incident is open."""
    now_ns = int(now.timestamp()) * 10**9
    seen = {key: alert for key, alert in judged.items() if alert.state != "unknown"}
    for key, value in gather.present(list(rows.of_objectives().values()), seen, now_ns).items():
        with transaction.atomic():
            fence()
            open_ones = Incident.objects.exclude(status=Incident.Status.RESOLVED).select_for_update()
            row = open_ones.filter(alert_key=key).first()
            if row is not None:
                row.burning = {**row.burning, "value": value, "value_at_ns": now_ns}
                row.summary = page_text.summary(notices.facts(row))
                row.save(update_fields=["burning", "summary"])


class _Tick:
    """Steps become rows, timeline and notices."""

    def __init__(
        self,
        known: dict[str, Incident],
        judged: Mapping[str, Signal],
        found: Mapping[str, gather.Found],
        now: datetime,
        down: Sequence[rows.Down] = (),
    ) -> None:
        self._rows, self._judged, self._found, self._now, self._down = known, judged, found, now, down
        self._take: dict[type[Any], Callable[[Any], None]] = {
            steps.Opened: self._opened,
            steps.Escalated: self._escalated,
            steps.Eased: self._eased,
            steps.Outage: self._outage,
            steps.Signalled: self._signalled,
            steps.Gone: self._gone,
            steps.Held: self._held,
            steps.Told: self._told,
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
        if notices.catch_up(self._rows.values(), self._now) or taken:
            live.changed()

    def _opened(self, step: steps.Opened) -> None:
        before = Incident.objects.filter(alert_key=step.key).order_by("-id").first()
        found = self._found.get(step.key) or gather.Found(missing=gather.NO_TIME)
        row = opening.incident(self._judged[step.key], found)
        row.notice_key, row.severity, row.opened_at = rows.new_notice_key(row), step.severity, self._now
        row.burning = {**row.burning, **self._down_in(row)}
        row.summary = page_text.summary(notices.facts(row))
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

    def _eased(self, step: steps.Eased) -> None:
        said = "No longer burns at the speed of a page." if step.since else "Burns at the speed of a page again."
        self._enter(self._rows[step.key], Entry.Kind.EASED, said)

    def _outage(self, step: steps.Outage) -> None:
        said = (
            "Most requests fail: latency pages of its scope are held back."
            if step.lasts
            else "Fewer than half of the requests fail: latency pages of its scope are no longer held back."
        )
        self._enter(self._rows[step.key], Entry.Kind.SIGNAL, said)

    def _signalled(self, step: steps.Signalled) -> None:
        row = self._rows[step.key]
        said = {
            "firing": "Fires again.",
            "quiet": "Quiet: resolves once it has stayed so.",
            "unknown": "Data is missing or too old: nothing is resolved until it is back.",
        }[step.state]
        if step.by:
            said = f"{rows.name_of(step.by)} is up again: what still burns is of the time when it was down."
        elif row.component and step.state != "unknown":
            said = f"{page_text.sentence(page_text.state(notices.facts(row)))}."
        self._enter(row, Entry.Kind.SIGNAL, said)

    def _gone(self, step: steps.Gone) -> None:
        if step.since:
            row, lasts = self._rows[step.key], TEXT.duration(step.for_s)
            said = f"No longer in the data: {words.scope(row.scope)}. Resolves by itself once that has been so for {lasts}."
            self._enter(row, Entry.Kind.SIGNAL, said)

    def _held(self, step: steps.Held) -> None:
        row = self._rows[step.key]
        if step.withheld is None:
            self._enter(row, Entry.Kind.RELEASED, "Nothing holds it back any more.")
        else:
            self._enter(row, Entry.Kind.HELD, f"{rows.untold(step.withheld)}.")
            if step.withheld.kind == "nobody":
                log.error("page.had_no_destination", incident=row.pk, key=step.key, severity=step.withheld.by)

    def _told(self, step: steps.Told) -> None:
        """A page is known outside under another key than the ticket before it, which may be acknowledged: nobody would hear of it."""
        row = self._rows[step.key]
        if step.before:
            notices.resolve(row, self._now, "became a page")
            row.earlier_keys = [*row.earlier_keys, row.notice_key]
            row.notice_key, row.sequence = rows.new_notice_key(row), 0
        notices.trigger(row, self._now)
        self._enter(row, Entry.Kind.TOLD, f"As a {step.severity}, for {notices.whom(row)}: {row.summary}")

    def _resolved(self, step: steps.Resolved) -> None:
        row = self._rows.pop(step.key)
        why = _why_over(step, row)
        row.status, row.resolved_at, row.resolved_by = Incident.Status.RESOLVED, self._now, "weir"
        row.withheld = row.withheld_by = ""
        if step.told:
            notices.resolve(row, self._now, why)
        self._enter(row, Entry.Kind.RESOLVED, f"{page_text.sentence(why)}.")
        row.save()

    def _cooled(self, step: steps.Cooled) -> None:
        Incident.objects.filter(alert_key=step.key, cool_until__isnull=False).update(cool_until=None)

    def _down_in(self, row: Incident) -> dict[str, Any]:
        return {} if row.component else {"down": [one.said for one in self._down if one.concerns(row.scope)]}

    def _enter(self, row: Incident, kind: Entry.Kind, said: str) -> None:
        row.entries.create(at=self._now, kind=kind, text=said)


def _why_over(step: steps.Resolved, row: Incident) -> str:
    match step.why:
        case "recovered":
            return f"{rows.name_of(step.by)} is up again, and what still burns is of the time when it was down"
        case "quiet" if row.component:
            return page_text.state(notices.facts(row))
        case "changed" if row.component:
            return "it is no longer part of the fleet, or was disabled"
        case "quiet":
            return "quiet long enough"
        case "silent":
            return "no request of it comes any more, so nothing burns"
        case "eased":
            return "burns slower now, and goes on as a ticket"
        case "gone":
            lasted = TEXT.duration(step.for_s)
            return f"not in the data for {lasted}, as long as its windows ({words.scope(row.scope)}): nothing is left to burn"
    return "its objective was changed, and does not judge this scope any more"
