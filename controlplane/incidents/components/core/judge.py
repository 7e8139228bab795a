"""Decides which components are down, and since when, from what was observed of them.

A component is down once it was seen down for as long as `Limits` say, and was not seen up in between. If it was not seen up just
before (the whole system was started, or no worker ran), it gets the time that a start may take. A component that was not observed
lately is `unknown`; that none is observed is an alert of its own.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from controlplane.fleet.core.stack_rows import MAX_START_S, SHOWN_AS, Observed, PoolEntry, ReplicaEntry, judge
from controlplane.fleet.observe.core.ready import SIMILAR_WRONG, SPANS_REFUSED, Fault, says_all
from controlplane.incidents.components.core import policies, unjudged
from controlplane.incidents.components.core.alert import ComponentAlert, Kind, key_of
from controlplane.incidents.components.core.unjudged import ObjectiveSeen
from controlplane.slo.core.alert import State
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import Span
from controlplane.slo.core.windows import Severity
from inference.contract.gateway_signals import SPANS_REFUSED_AFTER_S

EVERYTHING: Mapping[str, str] = {}
PROCESSES: tuple[tuple[str, Kind, Severity], ...] = (
    ("gateway", "gateway", "page"),
    ("telemetry", "telemetry", "page"),
    ("redis", "cache", "ticket"),
)
"""What the worker probes in every installation. Without Redis, requests are served and pages go out: a ticket."""
LANE = "lane"
"""The same where batches are served: they can wait."""
SIMILAR = "similar-requests"
MAX_ERROR = 300


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long a component must be down, s: `page_after_s` where its incident is a page, `ticket_after_s` where it is a ticket,
    `start_s` where it was not seen up just before. `stale_after_s`: the age from which an observation says nothing.
    `unknown_after_s`: for how long objectives may be unknown."""

    page_after_s: float = 15.0
    ticket_after_s: float = 60.0
    start_s: float = MAX_START_S
    stale_after_s: float = 20.0
    unknown_after_s: float = 300.0

    def after_s(self, severity: Severity) -> float:
        return self.page_after_s if severity == "page" else self.ticket_after_s


@dataclass(frozen=True, slots=True)
class Observations:
    """The input of the decisions. `watching_since`: since when the calling process could see observations. `operated_by`: the team that
    owns the processes and Redis, as a pool's owner owns its replicas."""

    pools: Sequence[PoolEntry]
    components: Mapping[str, Observed]
    objectives: Sequence[ObjectiveSeen]
    planned: Sequence[MaintenanceWindow]
    watching_since: datetime
    operated_by: str


def alerts(seen: Observations, known: Container[str], now: datetime, limits: Limits) -> list[ComponentAlert]:
    """One for each component that could be down. `known`: keys of incidents that are open: such a component is down at once if
    it goes down again."""
    judged = _Judged(seen, known, now, limits)
    component_alerts = [judged.process(*process) for process in PROCESSES]
    if LANE in seen.components:
        component_alerts.append(judged.process(LANE, "lane", "ticket"))
    component_alerts += judged.said_by_gateway(SIMILAR, "similar requests", "similar", "ticket", SIMILAR_WRONG)
    component_alerts += judged.said_by_gateway(
        unjudged.SPANS,
        "Spans of the gateway",
        "spans",
        "page",
        SPANS_REFUSED,
        lasted_s=SPANS_REFUSED_AFTER_S,
        because="telemetry",
    )
    component_alerts += [judged.worker()]
    controller = judged.reporting("controller", "controller", "page", key_of("telemetry"))
    component_alerts += [controller, judged.observer()]
    if policies.POLICIES in seen.components:  # a controller before policies never said so
        followed = judged.reporting(policies.POLICIES, "policies", "page", controller.key)
        if (controller.state, followed.state) == ("unknown", "firing") and followed.key not in known:
            followed = replace(followed, state="unknown")  # it waits for the incident that explains it
        component_alerts += [followed]
    component_alerts += [
        judged.probed(**fault) for fault in policies.faults(seen.components, seen.pools, seen.operated_by)
    ]
    pools = [pool for pool in seen.pools if pool.enabled and enabled(pool)]
    down = {pool.name for pool in pools if judged.all_down(pool)}
    for pool in sorted(pools, key=lambda entry: entry.name):
        component_alerts.append(judged.pool(pool, explained(pool, pools, down)))
        if len(enabled(pool)) > 1:
            component_alerts += [judged.replica(pool, replica, pool.name in down) for replica in enabled(pool)]
    component_alerts += unjudged.alerts(seen.objectives, known, now, limits.unknown_after_s)
    span = Span(ns(now), ns(now) + 1)
    return [replace(alert, maintenance=_planned(alert, seen.planned, span)) for alert in component_alerts]


def enabled(pool: PoolEntry) -> list[ReplicaEntry]:
    return sorted((replica for replica in pool.replicas if replica.enabled), key=lambda replica: replica.name)


def explained(pool: PoolEntry, pools: Iterable[PoolEntry], down: Container[str]) -> tuple[Mapping[str, str], ...]:
    """The scopes in which every request fails while this pool is down: its own, and the model's, the variant's, the region's and all
    traffic where no other pool serves them."""
    scopes: list[Mapping[str, str]] = [{"pool": pool.name}]
    for name in ("variant", "model", "region"):
        value = getattr(pool, name)
        if all(other.name in down for other in pools if getattr(other, name) == value):
            scopes.append({name: value})
    if all(other.name in down for other in pools):
        scopes.append(EVERYTHING)
    return tuple(scopes)


def ns(at: datetime) -> int:
    return int(at.timestamp() * 1e6) * 1000


def _planned(alert: ComponentAlert, planned: Iterable[MaintenanceWindow], span: Span) -> bool:
    """A window for all objectives whose scope covers the component's is planned for the component too."""
    return any(
        not window.objectives and window.covers("", alert.scope) and window.occurrences(span) for window in planned
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    seen: Observations
    known: Container[str]
    now: datetime
    limits: Limits

    def process(self, component: str, kind: Kind, severity: Severity) -> ComponentAlert:
        explains = (EVERYTHING,) if kind == "gateway" else ()
        return self.probed(
            component, SHOWN_AS[component], kind, severity, explains=explains, owner=self.seen.operated_by
        )

    def said_by_gateway(
        self,
        component: str,
        name: str,
        kind: Kind,
        severity: Severity,
        fault: Fault,
        *,
        lasted_s: float = 0.0,
        because: str = "",
    ) -> list[ComponentAlert]:
        """Of a fault that the gateway says once it has lasted for `lasted_s`. `because`: the component that may explain it, whose own words
        are added.
        """
        observed, is_open = self.seen.components.get("gateway"), key_of(component) in self.known
        if self._look(observed) not in ("up", "degraded"):
            observed = None
        at, said = (observed.observed_at, observed.error.split("; ")) if observed else (None, [])
        wrong = [each for each in said if each.startswith(fault.text.partition("{")[0])]
        if not wrong and not is_open:
            return []
        explains = self.seen.components.get(because)
        if wrong and explains is not None and self._look(explains) == "degraded":
            wrong.append(f"{SHOWN_AS[because]} says: {explains.error}")
        alert = ComponentAlert(
            component=component,
            name=name,
            kind=kind,
            state="firing" if wrong else "quiet" if observed and says_all(observed.error) else "unknown",
            severity=severity,
            at_ns=ns(self.now),
            since=None if is_open or at is None else at - timedelta(seconds=lasted_s),  # its incident knows since when
            up_at=at,
            error="; ".join(wrong)[:MAX_ERROR],
            explained_by=(key_of(because),) if because else (),
            owner=self.seen.operated_by,
        )
        return [alert]

    def replica(self, pool: PoolEntry, replica: ReplicaEntry, pool_is_down: bool) -> ComponentAlert:
        """While all of its pool is down, the pool's incident says so: none opens for the replica."""
        alert = self.probed(
            f"{pool.name}/{replica.name}",
            f"{replica.name} of pool {pool.name}",
            "replica",
            "ticket",
            scope=policies.scope_of(pool),
            explained_by=(key_of(f"pool:{pool.name}"),),
            owner=pool.owner,
        )
        return replace(alert, state="unknown") if pool_is_down and alert.key not in self.known else alert

    def probed(self, component: str, name: str, kind: Kind, severity: Severity, **more: Any) -> ComponentAlert:
        """Of a component that the worker probes."""
        observed = self.seen.components.get(component)
        return ComponentAlert(
            component=component,
            name=name,
            kind=kind,
            state=self._state(key_of(component), observed, severity),
            severity=severity,
            at_ns=ns(self.now),
            since=since(observed),
            up_at=observed.up_at if observed else None,
            error=observed.error if observed else "",
            **more,
        )

    def pool(self, pool: PoolEntry, explains: tuple[Mapping[str, str], ...]) -> ComponentAlert:
        key, replicas = key_of(f"pool:{pool.name}"), self._replicas(pool)
        states = [self._look(observed) for observed in replicas]
        up = sum(state in ("up", "degraded") for state in states)
        down = [observed for observed in replicas if observed is not None]
        last = max(down, key=lambda observed: since(observed) or observed.observed_at, default=None)
        state: State = "unknown"
        if up:
            state = "quiet"
        elif all(look == "down" for look in states):
            state = self._state(key, last, "page")
        return ComponentAlert(
            component=f"pool:{pool.name}",
            name=f"pool {pool.name}",
            kind="pool",
            state=state,
            severity="page",
            at_ns=ns(self.now),
            since=since(last),
            up_at=max((observed.up_at for observed in down if observed.up_at), default=None),
            error="; ".join(sorted({observed.error for observed in down if observed.error}))[:MAX_ERROR],
            scope=policies.scope_of(pool),
            explains=explains,
            owner=pool.owner,
            up=up,
            of=len(states),
        )

    def all_down(self, pool: PoolEntry) -> bool:
        return all(self._look(observed) == "down" for observed in self._replicas(pool))

    def reporting(self, component: str, kind: Kind, severity: Severity, because: str) -> ComponentAlert:
        """Of a process that reports by itself. A report that it could do nothing, and why, counts as none.

        `because`: the key of the alert that explains it.
        """
        observed, at, error = self.seen.components.get(component), None, ""
        if observed is not None:
            at, error = observed.up_at if observed.state == "degraded" else observed.observed_at, observed.error
        return self._reported(component, SHOWN_AS[component], kind, severity, at, explained_by=(because,), error=error)

    def worker(self) -> ComponentAlert:
        """Its tasks come through Redis: where that says what is wrong with it, so does the worker's incident."""
        alert, redis = self.reporting("worker", "worker", "ticket", key_of("redis")), self.seen.components.get("redis")
        if redis is None or self._look(redis) != "degraded":
            return alert
        return replace(alert, error=f"Redis says: {redis.error}")

    def observer(self) -> ComponentAlert:
        """Of the worker's probes: the newest observation is their report."""
        names = {name for name, _, _ in PROCESSES}
        at = max(
            (observed.observed_at for name, observed in self.seen.components.items() if name in names), default=None
        )
        return self._reported("observer", "Observing", "observer", "page", at)

    def _reported(
        self, component: str, name: str, kind: Kind, severity: Severity, at: datetime | None, **more: Any
    ) -> ComponentAlert:
        """Down once there was no report for too long. `at`: of the latest one."""
        return ComponentAlert(
            component=component,
            name=name,
            kind=kind,
            state=self._report_state(key_of(component), at, severity),
            severity=severity,
            at_ns=ns(self.now),
            since=at or self.seen.watching_since,
            up_at=at,
            owner=self.seen.operated_by,
            **more,
        )

    def _replicas(self, pool: PoolEntry) -> list[Observed | None]:
        return [self.seen.components.get(f"{pool.name}/{replica.name}") for replica in enabled(pool)]

    def _look(self, observed: Observed | None) -> str:
        return judge(observed, self.now, self.limits.stale_after_s)[0]

    def _state(self, key: str, observed: Observed | None, severity: Severity) -> State:
        looks = self._look(observed)
        if observed is None or looks in ("unknown", "stale"):
            return "unknown"
        if looks != "down":
            return "quiet"
        began = since(observed) or self.now
        after_s = self.limits.after_s(severity)
        if observed.up_at is None or began - observed.up_at > timedelta(seconds=self.limits.stale_after_s):
            after_s = max(after_s, self.limits.start_s)
        return "firing" if key in self.known or self._lasts(began, after_s) else "unknown"

    def _report_state(self, key: str, at: datetime | None, severity: Severity) -> State:
        """Until this process began to watch, it could not have seen a report."""
        at = at or self.seen.watching_since - timedelta(seconds=self.limits.stale_after_s)
        if not self._lasts(at, self.limits.stale_after_s):
            return "quiet"
        began, after_s = at, self.limits.stale_after_s + self.limits.after_s(severity)
        if at < self.seen.watching_since:
            began, after_s = self.seen.watching_since, max(after_s, self.limits.start_s)
        return "firing" if key in self.known or self._lasts(began, after_s) else "unknown"

    def _lasts(self, began: datetime, for_s: float) -> bool:
        return self.now - began >= timedelta(seconds=for_s)


def since(observed: Observed | None) -> datetime | None:
    if observed is None or observed.state != "down":
        return None
    return observed.down_since or observed.observed_at
