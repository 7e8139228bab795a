"""Decides what becomes of incidents at a tick, from the open incidents, the alerts, the silences and the time.

One incident is open per alert key. It opens when the alert fires, and becomes a page when the alert of a ticket fires as a page.
It resolves once the alert has been quiet for `hold`, so an alert that flaps within that time stays one incident. `unknown` resolves
nothing, and the hold time starts again after it.

An alert is missing if its objective is judged and no alert of that scope is made, for example because a pool was removed. Once it has
been missing for its longest window, none of its events is left to burn, and the incident resolves. It resolves at once if the
objective was changed so that it no longer judges that scope, or if the component was removed.

Each incident sends notices of its own, whatever its group. An incident that fires and sends none has the reason in `Withheld`, and
sends its notice at the first tick without a reason.

Alerts of objectives and of components go through the same steps. `inhibition.py` decides which incident explains which alert.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.incidents.components.core.alert import PREFIX, ComponentAlert
from controlplane.incidents.core.rules import RULES, Rules
from controlplane.incidents.core.silences import Silence, Subject, silencing
from controlplane.incidents.decide.core.inhibition import Breakdown, inhibitor, is_outage, past_breakdown
from controlplane.incidents.decide.core.steps import (
    Cooled,
    Cooling,
    Downgraded,
    Escalated,
    Missing,
    NotSent,
    Opened,
    Outage,
    Queued,
    Resolved,
    Signalled,
    Step,
    Tracked,
    Withheld,
    advance,
)
from controlplane.incidents.notify.core.notice import SENT_AS
from controlplane.slo.core.alert import Alert, slug_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import Severity

Signal = Alert | ComponentAlert

Takes = Callable[[Signal, Severity], bool]
"""Whether any enabled destination takes notices of that alert at that severity."""


def decide(
    incidents: Iterable[Tracked],
    alerts: Sequence[Signal],
    silences: Sequence[Silence],
    cooling: Mapping[str, Cooling],
    now: datetime,
    rules: Rules = RULES,
    takes: Takes = lambda alert, severity: True,
    breakdowns: Sequence[Breakdown] = (),
) -> list[Step]:
    """The steps of this tick, in order. Alerts that may explain others come first.

    `breakdowns`: of components, for alerts of objectives.
    """
    tracked = {incident.key: incident for incident in incidents}
    judged = {alert.key: alert for alert in alerts}
    steps: list[Step] = []
    for key in sorted(judged, key=lambda key: (_rank(judged[key]), key)):
        tick = _Tick(judged[key], tracked, silences, cooling.get(key), now, rules, takes, breakdowns)
        steps += tick.steps()
    by_slug: dict[str, list[Alert]] = {}
    for alert in alerts:
        if isinstance(alert, Alert):
            by_slug.setdefault(alert.objective.slug, []).append(alert)
    for key in sorted(tracked.keys() - judged):
        steps += _unjudged(tracked[key], by_slug.get(slug_of(key), ()), now)
    return steps


def _rank(alert: Signal) -> int:
    if isinstance(alert, ComponentAlert):
        return 1 if alert.explained_by else 0
    return 0 if isinstance(alert.objective.indicator, Availability) else 1


def _unjudged(incident: Tracked, siblings: Sequence[Alert], now: datetime) -> Iterator[Step]:
    """Steps of an incident without an alert. `siblings`: the alerts of its objective. If one of them is unknown, so is this."""
    key = incident.key
    if key.startswith(PREFIX) or (siblings and not siblings[0].objective.judges(incident.scope)):
        yield Resolved(key, "changed", incident.queued_as)
    elif not siblings or any(sibling.state == "unknown" for sibling in siblings):
        if incident.missing_since:
            yield Missing(key, None)
        if incident.signal != "unknown":
            yield Signalled(key, "unknown", now)
    else:
        for_s = longest_s(siblings[0].objective, incident.severity)
        if incident.missing_since is None:
            yield Missing(key, now, for_s)
        elif now - incident.missing_since >= timedelta(seconds=for_s):
            yield Resolved(key, "missing", incident.queued_as, for_s)


def longest_s(objective: Objective, severity: Severity) -> int:
    """The longest window of that severity, s: older events cannot make it fire."""
    return max(
        (window.long_s for window in objective.windows if window.severity == severity),
        default=max((window.long_s for window in objective.windows), default=0),
    )


def _saw_any(alert: Signal) -> bool:
    """Whether a request came lately. Without any, an alert is quiet too."""
    return isinstance(alert, ComponentAlert) or any(verdict.short is not None for verdict in alert.verdicts)


def subject(alert: Signal) -> Subject:
    if isinstance(alert, ComponentAlert):
        return Subject("", alert.owner, alert.severity, alert.scope, component=alert.component)
    objective = alert.objective
    return Subject(objective.slug, objective.owner, alert.severity or "", alert.scope, objective.labels)


@dataclass(frozen=True, slots=True)
class _Tick:
    """One alert at one tick. `tracked` is brought up to date with each step."""

    alert: Signal
    tracked: dict[str, Tracked]
    silences: Sequence[Silence]
    cooling: Cooling | None
    now: datetime
    rules: Rules
    takes: Takes
    breakdowns: Sequence[Breakdown]

    def steps(self) -> list[Step]:
        taken: list[Step] = []
        for step in self._steps():
            taken.append(step)
            after = advance(self.incident, step)
            if after is None:
                self.tracked.pop(self.alert.key, None)
            else:
                self.tracked[self.alert.key] = after
        return taken

    @property
    def incident(self) -> Tracked | None:
        return self.tracked.get(self.alert.key)

    def _steps(self) -> Iterator[Step]:
        """Lazily: each step sees what the steps before it changed."""
        alert, over = self.alert, past_breakdown(self.alert, self.breakdowns, self.now)
        state = "quiet" if over else alert.state
        if self.incident is None:
            yield from self._closed(over)
            return
        if self.incident.missing_since:
            yield Missing(alert.key, None)
        quiet = self.incident.quiet_since
        if state != self.incident.signal or (quiet is not None and quiet > self.now):  # the clock was set back
            yield Signalled(alert.key, state, self.now, over or "")
        if state == "firing":
            yield from self._firing(self.incident)
        elif state == "quiet" and self._over(self.incident.quiet_since):
            yield self._resolved(self.incident, over)

    def _resolved(self, incident: Tracked, over: str | None) -> Resolved:
        if over:
            return Resolved(incident.key, "explained", incident.queued_as, by=over)
        return Resolved(incident.key, "quiet" if _saw_any(self.alert) else "silent", incident.queued_as)

    def _closed(self, over: str | None) -> Iterator[Step]:
        if over:
            return
        if self.alert.state == "quiet" and self.cooling:
            yield Cooled(self.alert.key)
        if self.alert.state == "firing" and not self.alert.maintenance and not self._cools():
            yield from self._open()

    def _cools(self) -> bool:
        """Whether a person resolved it lately. A page after a ticket opens all the same."""
        if self.cooling is None or self.now >= self.cooling.until:
            return False
        return not (self.alert.severity == "page" and self.cooling.severity == "ticket")

    def _open(self) -> Iterator[Step]:
        alert = self.alert
        yield Opened(alert.key, alert.severity or "page", alert.scope, is_outage(alert))
        yield from self._notify()

    def _firing(self, incident: Tracked) -> Iterator[Step]:
        key, severity = self.alert.key, self.alert.severity or "page"
        if self.alert.maintenance:
            yield from self._notify()
            return
        if severity == "page" and incident.severity == "ticket":
            yield Escalated(key)
        elif severity == "page" and incident.downgraded_since:
            yield Downgraded(key, None)
        elif severity == "ticket" and incident.severity == "page":
            if incident.downgraded_since is None:
                yield Downgraded(key, self.now)
            elif self._over(incident.downgraded_since):
                yield Resolved(key, "downgraded", incident.queued_as)
                yield from self._open()
                return
        if is_outage(self.alert) != incident.outage:
            yield Outage(key, not incident.outage)
        yield from self._notify()

    def _notify(self) -> Iterator[Step]:
        incident = self.incident
        if incident is None or incident.queued_as == incident.severity:
            if incident and incident.withheld:
                yield NotSent(incident.key, None)
            return
        reason = self._reason(incident)
        if reason is None:
            yield Queued(incident.key, incident.severity, incident.queued_as)
        elif reason != incident.withheld:
            yield NotSent(incident.key, reason)

    def _reason(self, incident: Tracked) -> Withheld | None:
        if self.alert.maintenance:
            return Withheld("maintenance")
        if silence := silencing(self.silences, subject(self.alert), self.now):
            return Withheld("silenced", silence.id)
        if by := inhibitor(self.alert, self.tracked.values(), self.breakdowns):
            return Withheld("inhibited", by)
        if incident.acknowledged:
            return Withheld("acknowledged")
        if incident.downgraded_since:
            return Withheld("downgraded")
        return None if self.takes(self.alert, incident.severity) else Withheld("nobody", SENT_AS[incident.severity])

    def _over(self, since: datetime | None) -> bool:
        return since is not None and self.now - since >= self.rules.hold
