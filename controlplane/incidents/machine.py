"""What becomes of incidents at a tick: a pure function of those that are open, the alerts, the silences and the time.

One incident is open per alert key. It opens when the alert fires, becomes a page when a ticket's alert does, and is over
once the alert has been quiet for `hold`: flapping within it stays one incident. `unknown` changes nothing but the clock of the
hold, which starts anew: what nobody saw was not quiet.

An alert that is no longer made, though its objective is judged, is of a value that has left the data (a pool that was removed).
Once it has been gone for all of its windows, no event is left that could burn, and the incident is over. It is over at once
where the objective was changed so that it no longer judges that scope.

Everybody is told of each incident by itself, whatever its group. Where somebody is not told of an incident that fires, it
carries the reason (`Withheld`), and is told of as soon as the reason is gone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from controlplane.incidents.silence import Silence, Subject, silencing
from controlplane.slo.alert import Alert, State, slug_of
from controlplane.slo.burn import error_budget
from controlplane.slo.objective import Objective
from controlplane.slo.sli import Availability, Latency
from controlplane.slo.windows import Severity

Kind = Literal["silenced", "inhibited", "maintenance", "acknowledged", "easing"]

OUTAGE_RATIO = 0.5  # of the requests in a short window fail: latency is then not the news


@dataclass(frozen=True, slots=True)
class Rules:
    """`hold`: longer than two ticks of a slow controller, far shorter than a person's patience with a page that is over.
    `cool_down`: what a person resolved stays resolved for so long, though it still fires."""

    hold: timedelta = timedelta(minutes=2)
    cool_down: timedelta = timedelta(minutes=15)


RULES = Rules()


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why nobody is told. `by`: the silence's id, the inhibiting alert's key; empty for the others. `easing`: of a page that no
    longer fires as one, and that will be a ticket."""

    kind: Kind
    by: str = ""


@dataclass(frozen=True, slots=True)
class Tracked:
    """An open incident, as far as decisions depend on it."""

    key: str
    severity: Severity
    scope: Mapping[str, str] = field(default_factory=dict)
    told: Severity | None = None
    withheld: Withheld | None = None
    acknowledged: bool = False
    outage: bool = False
    signal: State = "firing"
    quiet_since: datetime | None = None
    eased_since: datetime | None = None  # it fires, but no longer as a page
    gone_since: datetime | None = None  # its objective is judged, and it is not


@dataclass(frozen=True, slots=True)
class Cooling:
    """A person resolved it."""

    until: datetime
    severity: Severity


@dataclass(frozen=True, slots=True)
class Opened:
    key: str
    severity: Severity
    scope: Mapping[str, str]
    outage: bool


@dataclass(frozen=True, slots=True)
class Escalated:
    """From ticket to page. An acknowledgement was of the ticket: the page wants one of its own."""

    key: str


@dataclass(frozen=True, slots=True)
class Eased:
    """Fires no longer as a page (or, with None, does again)."""

    key: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Outage:
    key: str


@dataclass(frozen=True, slots=True)
class Signalled:
    key: str
    state: State
    at: datetime


@dataclass(frozen=True, slots=True)
class Gone:
    """Not in the data any more, `for_s` before it is over (or, with None, it is again, or nobody can tell)."""

    key: str
    since: datetime | None
    for_s: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """Not told, and why; None: the reason is gone, and there is nothing to tell."""

    key: str
    withheld: Withheld | None


@dataclass(frozen=True, slots=True)
class Told:
    """`before`: the severity that was told until now, which is withdrawn."""

    key: str
    severity: Severity
    before: Severity | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`silent`: quiet, because no request came. `eased`: it goes on as a ticket, which is opened next. `gone`: not in the data for
    `for_s`. `changed`: its objective no longer judges that scope."""

    key: str
    why: Literal["quiet", "silent", "eased", "gone", "changed"]
    told: Severity | None
    for_s: int = 0


@dataclass(frozen=True, slots=True)
class Cooled:
    """Quiet after a person had resolved it: if it fires again, that is news."""

    key: str


Step = Opened | Escalated | Eased | Outage | Signalled | Gone | Held | Told | Resolved | Cooled


def decide(
    incidents: Iterable[Tracked],
    alerts: Sequence[Alert],
    silences: Sequence[Silence],
    cooling: Mapping[str, Cooling],
    now: datetime,
    rules: Rules = RULES,
) -> list[Step]:
    """The steps of this tick, in order. Availability is looked at first: an outage must be known before what it inhibits."""
    tracked = {one.key: one for one in incidents}
    judged = {alert.key: alert for alert in alerts}
    steps: list[Step] = []
    for key in sorted(judged, key=lambda key: (not isinstance(judged[key].objective.indicator, Availability), key)):
        tick = _Tick(judged[key], tracked, silences, cooling.get(key), now, rules)
        steps += tick.steps()
    by_slug: dict[str, list[Alert]] = {}
    for alert in alerts:
        by_slug.setdefault(alert.objective.slug, []).append(alert)
    for key in sorted(tracked.keys() - judged):
        steps += _unjudged(tracked[key], by_slug.get(slug_of(key), ()), now)
    return steps


def _unjudged(incident: Tracked, siblings: Sequence[Alert], now: datetime) -> Iterator[Step]:
    """No alert was made for an incident. `siblings`: those of its objective; where one of them is unknown, so is this."""
    key = incident.key
    if siblings and not siblings[0].objective.judges(incident.scope):
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


def advance(before: Tracked | None, step: Step) -> Tracked | None:
    """The incident after a step; None: it is not open."""
    if isinstance(step, Opened):
        return Tracked(step.key, step.severity, step.scope, outage=step.outage)
    if before is None:
        return None
    match step:
        case Escalated():
            return replace(before, severity="page", acknowledged=False, eased_since=None)
        case Eased():
            return replace(before, eased_since=step.since)
        case Outage():
            return replace(before, outage=True)
        case Signalled():
            return replace(before, signal=step.state, quiet_since=step.at if step.state == "quiet" else None)
        case Gone():
            return replace(before, signal="unknown", quiet_since=None, gone_since=step.since)
        case Held():
            return replace(before, withheld=step.withheld)
        case Told():
            return replace(before, told=step.severity, withheld=None)
        case Resolved():
            return None
    return before


def is_outage(alert: Alert) -> bool:
    """Most requests of a firing page's short window failed."""
    if not isinstance(alert.objective.indicator, Availability) or alert.state != "firing":
        return False
    budget = error_budget(alert.objective.target)
    return any(
        verdict.fires and verdict.window.severity == "page" and (verdict.short or 0) * budget >= OUTAGE_RATIO
        for verdict in alert.verdicts
    )


def _saw_any(alert: Alert) -> bool:
    """Whether a request came lately: an alert is quiet without any, too."""
    return any(verdict.short is not None for verdict in alert.verdicts)


def inhibitor(alert: Alert, incidents: Iterable[Tracked]) -> Tracked | None:
    """An outage that covers the alert's scope, where the alert is about latency. One that nobody was told of inhibits nothing."""
    if not isinstance(alert.objective.indicator, Latency):
        return None
    found = (one for one in incidents if one.outage and one.told == "page" and one.key != alert.key)
    return next(
        (one for one in found if all(alert.scope.get(name) == value for name, value in one.scope.items())), None
    )


def subject(alert: Alert) -> Subject:
    objective = alert.objective
    return Subject(objective.slug, objective.owner, alert.severity or "", alert.scope, objective.labels)


@dataclass(frozen=True, slots=True)
class _Tick:
    """One alert at one tick. `tracked` is brought up to date with each step."""

    alert: Alert
    tracked: dict[str, Tracked]
    silences: Sequence[Silence]
    cooling: Cooling | None
    now: datetime
    rules: Rules

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
        alert = self.alert
        if self.incident is None:
            yield from self._closed()
            return
        if self.incident.gone_since:
            yield Gone(alert.key, None)
        if alert.state != self.incident.signal:
            yield Signalled(alert.key, alert.state, self.now)
        if alert.state == "firing":
            yield from self._firing(self.incident)
        elif alert.state == "quiet" and self._over(self.incident.quiet_since):
            yield Resolved(alert.key, "quiet" if _saw_any(alert) else "silent", self.incident.told)

    def _closed(self) -> Iterator[Step]:
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
        if is_outage(self.alert) and not incident.outage:
            yield Outage(key)
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
        if by := inhibitor(self.alert, self.tracked.values()):
            return Withheld("inhibited", by.key)
        if incident.acknowledged:
            return Withheld("acknowledged")
        return Withheld("easing") if incident.eased_since else None

    def _over(self, since: datetime | None) -> bool:
        return since is not None and self.now - since >= self.rules.hold
