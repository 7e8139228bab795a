"""Failover between the pools of a model, such as those of two regions or variants."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controlplane.policy.core.conditions import Truth, Value, holds
from controlplane.policy.core.decision import Alarm, Transition
from controlplane.policy.core.memory import FailoverMemory
from controlplane.policy.core.observation import ClusterFacts, ModelFacts, PoolFacts, fresh
from controlplane.policy.core.pool_values import clock, objective_values, pool_values
from controlplane.policy.core.spec import Failover, RoutingSpec
from inference.contract.plan import allowed_regions
from inference.contract.snapshot import Model, Tenant

STALE_AFTER_S = 30.0


class FailedOver(NamedTuple):
    memory: dict[str, FailoverMemory]
    moved: dict[str, dict[str, int]]
    transitions: tuple[Transition, ...]
    alarms: tuple[Alarm, ...]


def fail_over(
    spec: RoutingSpec,
    memory: Mapping[str, FailoverMemory],
    pools: Mapping[str, PoolFacts],
    clusters: Mapping[str, ClusterFacts],
    model: ModelFacts,
    now_ms: int,
    *,
    paused: bool = False,
) -> FailedOver:
    """Which failovers are active after this tick, and where they send the traffic of which pools. Of several failovers from a
    pool the first counts. An unknown condition leaves a failover as it is.
    """
    after: dict[str, FailoverMemory] = {}
    moved: dict[str, dict[str, int]] = {}
    transitions: list[Transition] = []
    alarms: list[Alarm] = []
    for failover in spec.failover:
        before = memory.get(failover.name, FailoverMemory())
        truth = Truth(False) if paused else _holds(failover, pools, clusters, model, now_ms)
        to = {
            pool: weight
            for pool, weight in failover.to.items()
            if weight and is_down(pools.get(pool)) is not True and not _disabled(pool, pools)
        }
        now = before if paused else _after(failover, before, truth, bool(to), now_ms)
        after[failover.name] = now
        reason = _reason(failover, before, now, truth, bool(to))
        if reason:
            transitions.append(Transition("failover", failover.name, _name(before), _name(now), reason))
        if now.active:
            alarms.append(_alarm(spec.model, failover, to))
        elif truth.holds is None and not failover.when:
            text = (
                f"Whether {failover.name} is needed is not known without {', '.join(truth.unknown)}. It does not begin."
            )
            alarms.append(Alarm(f"condition:{spec.model}/{failover.name}", "condition", spec.model, text))
        if now.active and to:
            for pool in failover.pools:
                moved.setdefault(pool, to)
    return FailedOver(after, moved, tuple(transitions), tuple(alarms))


def unmoved(failover: Failover, model: Model, pools: Mapping[str, str], tenants: Iterable[Tenant]) -> list[str]:
    """The tenants whose requests for the model stay where they are, because none of the pools that they would go to is in a region
    where they may be served. `pools` are regions by pool.
    """

    def some_allowed(names: Iterable[str], allowed: frozenset[str] | None) -> bool:
        return allowed is None or any(pools.get(name) in allowed for name in names)

    by_name = ((tenant.name, allowed_regions(model, frozenset(tenant.regions))) for tenant in tenants)
    return [
        name
        for name, allowed in by_name
        if some_allowed(failover.pools, allowed) and not some_allowed(failover.to, allowed)
    ]


def is_down(facts: PoolFacts | None) -> bool | None:
    """Whether no replica of a pool serves: gateways reach none, or its cluster has none that is ready. None: unknown, as where
    replicas are ready and no gateway says whether it reaches them.
    """
    if facts is None:
        return None
    if facts.reachable is not None and fresh(facts.traffic_age_ms, STALE_AFTER_S):
        return not facts.reachable
    return True if facts.ready == 0 and fresh(facts.cluster_age_ms, STALE_AFTER_S) else None


def _disabled(pool: str, pools: Mapping[str, PoolFacts]) -> bool:
    return pool in pools and pools[pool].disabled


def _holds(
    failover: Failover,
    pools: Mapping[str, PoolFacts],
    clusters: Mapping[str, ClusterFacts],
    model: ModelFacts,
    now_ms: int,
) -> Truth:
    names = [pool for pool in failover.pools if not _disabled(pool, pools)]
    if not names:  # they get no requests that could go elsewhere
        return Truth(False)
    if not failover.when:
        downs = [is_down(pools.get(pool)) for pool in names]
        if any(down is False for down in downs):
            return Truth(False)
        unseen = [pool for pool, down in zip(names, downs, strict=True) if down is None]
        return Truth(None, tuple(f"the state of {pool}" for pool in unseen)) if unseen else Truth(True)
    return holds(failover.when, "failover", failover_values(failover, pools, clusters, model, now_ms))


def failover_values(
    failover: Failover,
    pools: Mapping[str, PoolFacts],
    clusters: Mapping[str, ClusterFacts],
    model: ModelFacts,
    now_ms: int,
) -> dict[str, Value]:
    seen = [pools.get(pool, PoolFacts(pool)) for pool in failover.pools if not _disabled(pool, pools)]
    values = pool_values(seen, STALE_AFTER_S) | clock(now_ms)
    downs = [is_down(pool) for pool in seen]
    values["reachable"] = True if False in downs else None if None in downs else False
    names = sorted({pool.cluster for pool in seen if pool.cluster})
    values["cluster_up"] = _all_up([clusters.get(name) for name in names])
    return values | objective_values(list(model.tiers.values()), 120.0)


def _all_up(clusters: Sequence[ClusterFacts | None]) -> bool | None:
    """A cluster that was never read, as after a start, may be up."""
    ups = [
        None if cluster is None or not (cluster.problem or cluster.age_ms is not None) else cluster.up
        for cluster in clusters
    ]
    return False if False in ups else None if None in ups or not ups else True


def _after(failover: Failover, before: FailoverMemory, truth: Truth, possible: bool, now_ms: int) -> FailoverMemory:
    if truth.holds is None:
        return FailoverMemory(before.active, before.since_ms)
    if truth.holds:
        active = before.active or possible
        return FailoverMemory(active, before.since_ms if before.active == active else now_ms)
    if not before.active:
        return before
    well_since_ms = before.well_since_ms if before.well_since_ms is not None else now_ms
    stay_ms = failover.min_stay_s * 1_000
    if now_ms - well_since_ms >= stay_ms and now_ms - before.since_ms >= stay_ms:
        return FailoverMemory(False, now_ms)
    return FailoverMemory(True, before.since_ms, well_since_ms)


def _reason(failover: Failover, before: FailoverMemory, now: FailoverMemory, truth: Truth, possible: bool) -> str:
    what = failover.when or f"none of {', '.join(failover.pools)} can serve"
    if now.active != before.active:
        return f"{what}" if now.active else f"no longer: {what}"
    if truth.holds is None:
        return f"stays as it is: unknown are {', '.join(truth.unknown)}"
    if truth.holds and not possible:
        return f"{what}, but none of {', '.join(failover.to)} can serve either"
    return ""


def _alarm(model: str, failover: Failover, to: Mapping[str, int]) -> Alarm:
    pools, places = ", ".join(failover.pools), ", ".join(to)
    key = f"failover:{model}/{failover.name}"
    if not to:
        text = f"{failover.name} is active, but none of {', '.join(failover.to)} can serve instead of {pools}."
        return Alarm(key, "failover", model, text, "page")
    why = f"{failover.when} held" if failover.when else f"none of {pools} could serve"
    return Alarm(key, "failover", model, f"{failover.name} sends the requests of {pools} to {places}, since {why}.")


def _name(memory: FailoverMemory) -> str:
    return "active" if memory.active else "off"
