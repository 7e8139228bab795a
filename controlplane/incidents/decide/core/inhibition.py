"""Finds the incident that explains an alert. The alert is then inhibited: it sends no notice of its own.

An incident that sent no notice itself explains nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.decide.core.steps import Tracked
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.sli import Availability, Latency

OUTAGE_RATIO = 0.5  # of the requests in a short window fail: latency pages would only repeat it


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A component's incident that sent a page. It explains what fails in `scopes`."""

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
        sent = {incident.key for incident in incidents if incident.queued_as}
        return next((key for key in alert.explained_by if key in sent), None)
    for breakdown in breakdowns:
        if breakdown.over_at is None and breakdown.covers(alert):
            return breakdown.key
    if isinstance(alert.objective.indicator, Latency):
        for incident in incidents:
            is_other = incident.outage and incident.queued_as == "page" and incident.key != alert.key
            if is_other and covers(incident.scope, alert.scope):
                return incident.key
    return None


def past_breakdown(alert: Alert | ComponentAlert, breakdowns: Iterable[Breakdown], now: datetime) -> str | None:
    """The key of the resolved incident that explains all that fires. While the shortest window that fires reaches back to when the
    component was down, its failures may be of that time. An alert that fires for longer is not explained by it."""
    if isinstance(alert, ComponentAlert) or alert.state != "firing":
        return None
    short_s = min((verdict.window.short_s for verdict in alert.verdicts if verdict.fires), default=0)
    for breakdown in breakdowns:
        if (
            breakdown.over_at is not None
            and now - breakdown.over_at < timedelta(seconds=short_s)
            and breakdown.covers(alert)
        ):
            return breakdown.key
    return None
