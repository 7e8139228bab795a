"""What becomes of incidents at a tick: a pure function of those that are open, the alerts, the silences and the time.

One incident is open per alert key. It opens when the alert fires, becomes a page when a ticket's alert does, and is over
once the alert has been quiet for `hold`: flapping within it stays one incident. `unknown` changes nothing but the clock of the
hold, which starts anew: what nobody saw was not quiet.

An alert that is no longer made, though its objective is judged, is of a value that has left the data (a pool that was removed).
Once it has been gone for all of its windows, no event is left that could burn, and the incident is over. It is over at once
where the objective was changed so that it no longer judges that scope, or where the component was removed.

Everybody is told of each incident by itself, whatever its group. Where somebody is not told of an incident that fires, it
carries the reason (`Withheld`), and is told of as soon as the reason is gone.

Alerts of objectives and of components go through the same steps. What explains what is in `inhibition.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.incidents.components.core.alert import PREFIX, ComponentAlert
from controlplane.incidents.decide.core.inhibition import Breakdown, inhibitor, is_outage, recovered
from controlplane.incidents.decide.core.silences import Silence, Subject, silencing
from controlplane.incidents.decide.core.steps import (
    RULES,
    SENT_AS,
    Cooled,
    Cooling,
    Eased,
    Escalated,
    Gone,
    Held,
    Opened,
    Outage,
    Resolved,
    Rules,
    Signalled,
    Step,
    Told,
    Tracked,
    Withheld,
    advance,
)
from controlplane.slo.core.alert import Alert, slug_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import Severity

Signal = Alert | ComponentAlert

Takes = Callable[[Signal, Severity], bool]
"""Whether any enabled destination takes notices of that alert at that severity."""


def everybody(alert: Signal, severity: Severity) -> bool:
    return True


def decide(
    incidents: Iterable[Tracked],
    alerts: Sequence[Signal],
    silences: Sequence[Silence],
    cooling: Mapping[str, Cooling],
    now: datetime,
    rules: Rules = RULES,
    takes: Takes = everybody,
    breakdowns: Sequence[Breakdown] = (),
) -> list[Step]:
    """The steps of this tick, in order. What may explain others is looked at first: it must be known before what it explains.

    `breakdowns`: of components, for alerts of objectives.
    """
    tracked = {one.key: one for one in incidents}
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
    """No alert was made for an incident. `siblings`: those of its objective; where one of them is unknown, so is this."""
    key = incident.key
    if key.startswith(PREFIX) or (siblings and not siblings[0].objective.judges(incident.scope)):
        yield Resolved(key, "changed", incident.told)
    elif not siblings or any(one.state == "unknown" for one in siblings):
        if incident.gone_since:
            yield Gone(key, None)
        if incident.signal != "unknown":
            yield Signalled(key, "unknown", now)
    else:
        for_s = longest_s(siblings[0].objective, incident.severity)
        if incident.gone_since is None:
            yield Gone(key, now, for_s)
        elif now - incident.gone_since >= timedelta(seconds=for_s):
            yield Resolved(key, "gone", incident.told, for_s)


def longest_s(objective: Objective, severity: Severity) -> int:
    """The longest window by which it fires as severe: what no event of that time burned can not fire any more."""
    return max(
        (one.long_s for one in objective.windows if one.severity == severity),
        default=max((one.long_s for one in objective.windows), default=0),
    )


def _saw_any(alert: Signal) -> bool:
    """Whether a request came lately: an alert is quiet without any, too."""
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
        """Lazily: each step sees what those before it have changed."""
        alert, over = self.alert, recovered(self.alert, self.breakdowns, self.now)
        state = "quiet" if over else alert.state
        if self.incident is None:
            yield from self._closed(over)
            return
        if self.incident.gone_since:
            yield Gone(alert.key, None)
        if state != self.incident.signal:
            yield Signalled(alert.key, state, self.now, over or "")
        if state == "firing":
            yield from self._firing(self.incident)
        elif state == "quiet" and self._over(self.incident.quiet_since):
            yield self._resolved(self.incident, over)

    def _resolved(self, incident: Tracked, over: str | None) -> Resolved:
        if over:
            return Resolved(incident.key, "recovered", incident.told, by=over)
        return Resolved(incident.key, "quiet" if _saw_any(self.alert) else "silent", incident.told)

    def _closed(self, over: str | None) -> Iterator[Step]:
        if over:
            return
        if self.alert.state == "quiet" and self.cooling:
            yield Cooled(self.alert.key)
        if self.alert.state == "firing" and not self.alert.maintenance and not self._cools():
            yield from self._open()

    def _cools(self) -> bool:
        """What a person resolved; but a page after a ticket is news."""
        if self.cooling is None or self.now >= self.cooling.until:
            return False
        return not (self.alert.severity == "page" and self.cooling.severity == "ticket")

    def _open(self) -> Iterator[Step]:
        alert = self.alert
        yield Opened(alert.key, alert.severity or "page", alert.scope, is_outage(alert))
        yield from self._tell()

    def _firing(self, incident: Tracked) -> Iterator[Step]:
        key, severity = self.alert.key, self.alert.severity or "page"
        if self.alert.maintenance:
            yield from self._tell()
            return
        if severity == "page" and incident.severity == "ticket":
            yield Escalated(key)
        elif severity == "page" and incident.eased_since:
            yield Eased(key, None)
        elif severity == "ticket" and incident.severity == "page":
            if incident.eased_since is None:
                yield Eased(key, self.now)
            elif self._over(incident.eased_since):
                yield Resolved(key, "eased", incident.told)
                yield from self._open()
                return
        if is_outage(self.alert) != incident.outage:
            yield Outage(key, not incident.outage)
        yield from self._tell()

    def _tell(self) -> Iterator[Step]:
        incident = self.incident
        if incident is None or incident.told == incident.severity:
            if incident and incident.withheld:
                yield Held(incident.key, None)
            return
        reason = self._reason(incident)
        if reason is None:
            yield Told(incident.key, incident.severity, incident.told)
        elif reason != incident.withheld:
            yield Held(incident.key, reason)

    def _reason(self, incident: Tracked) -> Withheld | None:
        if self.alert.maintenance:
            return Withheld("maintenance")
        if silence := silencing(self.silences, subject(self.alert), self.now):
            return Withheld("silenced", silence.id)
        if by := inhibitor(self.alert, self.tracked.values(), self.breakdowns):
            return Withheld("inhibited", by)
        if incident.acknowledged:
            return Withheld("acknowledged")
        if incident.eased_since:
            return Withheld("easing")
        return None if self.takes(self.alert, incident.severity) else Withheld("nobody", SENT_AS[incident.severity])

    def _over(self, since: datetime | None) -> bool:
        return since is not None and self.now - since >= self.rules.hold
