"""Which components are down, and since when, from what was observed of them. Pure.

A component is down once it was seen down for as long as `Limits` say, without having been seen up in between. What was not seen up
just before (the whole system was started, or nobody looked) gets the time that a start may take. What nobody has looked at lately is
`unknown`, and that nobody looks is an alert of its own.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controlplane.fleet.core.stack import SHOWN_AS, Observed, PoolEntry, ReplicaEntry, judge
from controlplane.incidents.components.core import unjudged
from controlplane.incidents.components.core.alert import ComponentAlert, Kind, key_of
from controlplane.incidents.components.core.unjudged import ObjectiveSeen
from controlplane.slo.core.alert import State
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import Span
from controlplane.slo.core.windows import Severity

EVERYTHING: Mapping[str, str] = {}
PROCESSES: tuple[tuple[str, Kind, Severity], ...] = (
    ("gateway", "gateway", "page"),
    ("telemetry", "telemetry", "page"),
    ("redis", "cache", "ticket"),
)
"""What the worker looks at in every installation. Without Redis requests are served and pages go out: a ticket."""
MOST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long a component must be down, s: `page_after_s` where its incident is a page, `ticket_after_s` where it is a ticket,
    `start_s` where it was not seen up just before. `stale_after_s`: the age from which an observation says nothing.
    `unknown_after_s`: for how long objectives may be unknown."""

    page_after_s: float = 15.0
    ticket_after_s: float = 60.0
    start_s: float = 300.0
    stale_after_s: float = 20.0
    unknown_after_s: float = 300.0

    def after_s(self, severity: Severity) -> float:
        return self.page_after_s if severity == "page" else self.ticket_after_s


@dataclass(frozen=True, slots=True)
class Observations:
    """All that is decided from. `watching_since`: from when on the process that asks has been able to see observations arrive."""

    pools: Sequence[PoolEntry]
    components: Mapping[str, Observed]
    objectives: Sequence[ObjectiveSeen]
    planned: Sequence[MaintenanceWindow]
    watching_since: datetime


def alerts(seen: Observations, known: Container[str], now: datetime, limits: Limits) -> list[ComponentAlert]:
    """One for each component that could be down. `known`: keys of incidents that are open: what is down again within them is down at
    once."""
    judged = _Judged(seen, known, now, limits)
    found = [judged.process(*process) for process in PROCESSES]
    found += [judged.silent("worker", "worker", "ticket", key_of("redis"))]
    found += [judged.silent("controller", "controller", "page", key_of("telemetry"))]
    found += [judged.observer()]
    pools = [one for one in seen.pools if one.enabled and enabled(one)]
    down = {pool.name for pool in pools if judged.all_down(pool)}
    for pool in sorted(pools, key=lambda one: one.name):
        found.append(judged.pool(pool, explained(pool, pools, down)))
        if len(enabled(pool)) > 1:
            found += [judged.replica(pool, replica, pool.name in down) for replica in enabled(pool)]
    found += unjudged.alerts(seen.objectives, known, now, limits.unknown_after_s)
    span = Span(ns(now), ns(now) + 1)
    return [replace(one, maintenance=_planned(one, seen.planned, span)) for one in found]


def enabled(pool: PoolEntry) -> list[ReplicaEntry]:
    return sorted((one for one in pool.replicas if one.enabled), key=lambda one: one.name)


def explained(pool: PoolEntry, pools: Iterable[PoolEntry], down: Container[str]) -> tuple[Mapping[str, str], ...]:
    """The scopes in which every request fails while this pool is down: its own, and the model's, the variant's, the region's and all
    traffic where no other pool serves them."""
    scopes: list[Mapping[str, str]] = [{"pool": pool.name}]
    for name in ("variant", "model", "region"):
        value = getattr(pool, name)
        if all(one.name in down for one in pools if getattr(one, name) == value):
            scopes.append({name: value})
    if all(one.name in down for one in pools):
        scopes.append(EVERYTHING)
    return tuple(scopes)


def ns(at: datetime) -> int:
    return int(at.timestamp() * 1e6) * 1000


def _planned(alert: ComponentAlert, planned: Iterable[MaintenanceWindow], span: Span) -> bool:
    """A window for all objectives whose scope covers the component's is planned for the component too."""
    return any(not one.objectives and one.covers("", alert.scope) and one.occurrences(span) for one in planned)


@dataclass(frozen=True, slots=True)
class _Judged:
    seen: Observations
    known: Container[str]
    now: datetime
    limits: Limits

    def process(self, component: str, kind: Kind, severity: Severity) -> ComponentAlert:
        observed = self.seen.components.get(component)
        return ComponentAlert(
            component=component,
            name=SHOWN_AS[component],
            kind=kind,
            state=self._state(key_of(component), observed, severity),
            severity=severity,
            at_ns=ns(self.now),
            since=since(observed),
            up_at=observed.up_at if observed else None,
            error=observed.error if observed else "",
            explains=(EVERYTHING,) if kind == "gateway" else (),
        )

    def replica(self, pool: PoolEntry, replica: ReplicaEntry, pool_is_down: bool) -> ComponentAlert:
        """While all of its pool is down, the pool's incident says so: none is opened for the replica."""
        component = f"{pool.name}/{replica.name}"
        observed = self.seen.components.get(component)
        state = self._state(key_of(component), observed, "ticket")
        if pool_is_down and key_of(component) not in self.known:
            state = "unknown"
        return ComponentAlert(
            component=component,
            name=f"{replica.name} of pool {pool.name}",
            kind="replica",
            state=state,
            severity="ticket",
            at_ns=ns(self.now),
            since=since(observed),
            up_at=observed.up_at if observed else None,
            error=observed.error if observed else "",
            scope=_scope(pool),
            explained_by=(key_of(f"pool:{pool.name}"),),
            owner=pool.owner,
        )

    def pool(self, pool: PoolEntry, explains: tuple[Mapping[str, str], ...]) -> ComponentAlert:
        key, replicas = key_of(f"pool:{pool.name}"), self._replicas(pool)
        states = [self._look(one) for one in replicas]
        up = sum(state in ("up", "degraded") for state in states)
        down = [one for one in replicas if one is not None]
        last = max(down, key=lambda one: since(one) or one.observed_at, default=None)
        state: State = "unknown"
        if up:
            state = "quiet"
        elif all(one == "down" for one in states):
            state = self._state(key, last, "page")
        return ComponentAlert(
            component=f"pool:{pool.name}",
            name=f"pool {pool.name}",
            kind="pool",
            state=state,
            severity="page",
            at_ns=ns(self.now),
            since=since(last),
            up_at=max((one.up_at for one in down if one.up_at), default=None),
            error="; ".join(sorted({one.error for one in down if one.error}))[:MOST_ERROR],
            scope=_scope(pool),
            explains=explains,
            explained_by=(),
            owner=pool.owner,
            up=up,
            of=len(states),
        )

    def all_down(self, pool: PoolEntry) -> bool:
        return all(self._look(one) == "down" for one in self._replicas(pool))

    def silent(self, component: str, kind: Kind, severity: Severity, because: str) -> ComponentAlert:
        """What writes down itself that it works: down once it has not for too long."""
        observed = self.seen.components.get(component)
        at = observed.observed_at if observed else None
        return ComponentAlert(
            component=component,
            name=SHOWN_AS[component],
            kind=kind,
            state=self._heard(key_of(component), at, severity),
            severity=severity,
            at_ns=ns(self.now),
            since=at or self.seen.watching_since,
            up_at=at,
            explained_by=(because,),
        )

    def observer(self) -> ComponentAlert:
        """Nobody has looked at anything for too long."""
        names = {name for name, _, _ in PROCESSES}
        at = max((one.observed_at for name, one in self.seen.components.items() if name in names), default=None)
        return ComponentAlert(
            component="observer",
            name="Observing",
            kind="observer",
            state=self._heard(key_of("observer"), at, "page"),
            severity="page",
            at_ns=ns(self.now),
            since=at or self.seen.watching_since,
            up_at=at,
        )

    def _replicas(self, pool: PoolEntry) -> list[Observed | None]:
        return [self.seen.components.get(f"{pool.name}/{one.name}") for one in enabled(pool)]

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

    def _heard(self, key: str, at: datetime | None, severity: Severity) -> State:
        """`at`: when it was last heard of, if ever. Until this process began to watch, nobody could have heard."""
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


def _scope(pool: PoolEntry) -> dict[str, str]:
    return {"model": pool.model, "variant": pool.variant, "pool": pool.name, "region": pool.region}
