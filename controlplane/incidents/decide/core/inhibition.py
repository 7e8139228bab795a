"""Which incident explains an alert, so that nobody need be told of that too. Pure.

What nobody was told of explains nothing: then the alert is the only news.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.decide.core.steps import Tracked
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.sli import Availability, Latency

OUTAGE_RATIO = 0.5  # of the requests in a short window fail: latency is then not the news


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The incident of a component, of which people were told. It explains what fails in `scopes`."""

    key: str
    scopes: tuple[Mapping[str, str], ...]
    over_at: datetime | None = None  # since when the component has been up again; None while its incident is open

    def covers(self, alert: Alert) -> bool:
        return isinstance(alert.objective.indicator, Latency | Availability) and any(
            covers(scope, alert.scope) for scope in self.scopes
        )


def covers(scope: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """All of `other`'s traffic is traffic of `scope`."""
    return all(other.get(name) == value for name, value in scope.items())


def is_outage(alert: Alert | ComponentAlert) -> bool:
    """Most requests of a firing page's short window failed."""
    if isinstance(alert, ComponentAlert) or alert.state != "firing":
        return False
    if not isinstance(alert.objective.indicator, Availability):
        return False
    budget = error_budget(alert.objective.target)
    return any(
        verdict.fires and verdict.window.severity == "page" and (verdict.short or 0) * budget >= OUTAGE_RATIO
        for verdict in alert.verdicts
    )


def inhibitor(
    alert: Alert | ComponentAlert, incidents: Iterable[Tracked], breakdowns: Iterable[Breakdown] = ()
) -> str | None:
    """The key of the open incident that explains the alert.

    Latency: an outage of requests that covers its scope. Latency and availability: a component that is down, and whose traffic covers
    it. A component: another that it is down because of.
    """
    if isinstance(alert, ComponentAlert):
        told = {one.key for one in incidents if one.told}
        return next((key for key in alert.explained_by if key in told), None)
    for one in breakdowns:
        if one.over_at is None and one.covers(alert):
            return one.key
    if isinstance(alert.objective.indicator, Latency):
        for incident in incidents:
            is_other = incident.outage and incident.told == "page" and incident.key != alert.key
            if is_other and covers(incident.scope, alert.scope):
                return incident.key
    return None


def recovered(alert: Alert | ComponentAlert, breakdowns: Iterable[Breakdown], now: datetime) -> str | None:
    """The key of the incident that is over and explains all that fires: as long as the shortest window that fires still reaches back
    to when the component was down, what it counts may be of that time. What fires for longer is news."""
    if isinstance(alert, ComponentAlert) or alert.state != "firing":
        return None
    short_s = min((one.window.short_s for one in alert.verdicts if one.fires), default=0)
    for one in breakdowns:
        if one.over_at is not None and now - one.over_at < timedelta(seconds=short_s) and one.covers(alert):
            return one.key
    return None
