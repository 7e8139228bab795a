"""The variables of conditions, from what was seen of pools and objectives. Unknown stays None."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from controlplane.policy.core.conditions import Between, Value
from controlplane.policy.core.observation import ClusterFacts, PoolFacts, TierFacts, fresh

SUMS = ("arrived_rps", "waiting", "running", "in_flight", "ready", "starting", "pending", "wanted")
WORST = ("queue_delay_s", "kv_use")
OBJECTIVES = ("burn_rate_fast", "burn_rate_slow", "budget_left", "attainment")
OF_SERVERS = ("running", "kv_use", "cpu_use")
OF_CLUSTER = ("ready", "starting", "pending", "wanted", "draining")


def hold_values(facts: PoolFacts, cluster: ClusterFacts | None, now_ms: int) -> dict[str, Value]:
    """Of `hold_when`. Its rails have checked the ages before."""
    values: dict[str, Value] = {name: _number(getattr(facts, name)) for name in (*SUMS, *WORST, "draining", "cpu_use")}
    values |= {"saturation": saturation([facts]), "cluster_up": None if cluster is None else cluster.up}
    return values | clock(now_ms)


def pool_values(pools: Sequence[PoolFacts], stale_after_s: float) -> dict[str, Value]:
    """Sums and worst values over pools. A pool whose value is missing or old makes it unknown."""

    def combined(name: str, together: Callable[[Iterable[float]], float]) -> float | None:
        numbers = [_number(getattr(pool, name)) if _is_fresh(pool, name, stale_after_s) else None for pool in pools]
        known = [number for number in numbers if number is not None]
        return together(known) if pools and len(known) == len(pools) else None

    def summed(name: str) -> Value:
        high = combined(name, sum)
        silent = sum(getattr(pool.silent, name, 0.0) for pool in pools if pool.silent is not None)
        return Between(max(0.0, high - silent), high) if silent and high is not None else high

    values: dict[str, Value] = {name: summed(name) for name in SUMS}
    values.update((name, combined(name, max)) for name in WORST)
    trusted = bool(pools) and all(
        _is_fresh(pool, "arrived_rps", stale_after_s) and _is_fresh(pool, "ready", stale_after_s) for pool in pools
    )
    return values | {"saturation": _saturation_between(pools) if trusted else None}


def _saturation_between(pools: Sequence[PoolFacts]) -> Value:
    high = saturation(pools)
    low = saturation([_without_silent(pool) for pool in pools])
    return high if high is None or low is None or low == high else Between(low, high)


def _without_silent(pool: PoolFacts) -> PoolFacts:
    def left(number: float | None, silent: float) -> float | None:
        return None if number is None else max(0.0, number - silent)

    if pool.silent is None:
        return pool
    return msgspec.structs.replace(
        pool,
        arrived_rps=left(pool.arrived_rps, pool.silent.arrived_rps),
        waiting=left(pool.waiting, pool.silent.waiting),
        in_flight=left(pool.in_flight, pool.silent.in_flight),
    )


def saturation(pools: Sequence[PoolFacts]) -> float | None:
    """Requests/s that arrive / what the ready replicas carry; or requests in flight and waiting / slots where the capacity is not
    known. None where neither is. Without a ready replica it is 1 as soon as anything arrives.
    """
    load = places = 0.0
    for pool in pools:
        if pool.ready is None:
            return None
        if pool.arrived_rps is not None and pool.capacity_rps:
            load, places = load + pool.arrived_rps / pool.capacity_rps, places + pool.ready
        elif pool.in_flight is not None and pool.waiting is not None and pool.slots:
            load, places = load + (pool.in_flight + pool.waiting) / pool.slots, places + pool.ready
        else:
            return None
    if places == 0:
        return float(load > 0)
    return load / places


def objective_values(tiers: Sequence[TierFacts], stale_after_s: float) -> dict[str, Value]:
    """The worst of the tiers' objectives. While one of them is not known it may be worse than those that are."""
    known = [tier for tier in tiers if fresh(tier.age_ms, stale_after_s)]
    is_whole = not any(tier.unjudged or (tier.age_ms is not None and tier not in known) for tier in tiers)
    return {name: _worst(name, known, is_whole=is_whole) for name in OBJECTIVES}


def _worst(name: str, tiers: Sequence[TierFacts], *, is_whole: bool) -> Value:
    numbers = [number for tier in tiers if (number := getattr(tier, name)) is not None]
    if not numbers:
        return None
    if name.startswith("burn_rate"):
        return float(max(numbers)) if is_whole else Between(max(numbers), math.inf)
    return float(min(numbers)) if is_whole else Between(-math.inf, min(numbers))


def clock(now_ms: int) -> dict[str, Value]:
    at = datetime.fromtimestamp(now_ms / 1_000, UTC)
    return {"hour_utc": at.hour + at.minute / 60 + at.second / 3_600, "weekday_utc": float(at.isoweekday())}


def _is_fresh(pool: PoolFacts, name: str, stale_after_s: float) -> bool:
    if name in OF_SERVERS:
        return fresh(pool.servers_age_ms, stale_after_s)
    return fresh(pool.cluster_age_ms if name in OF_CLUSTER else pool.traffic_age_ms, stale_after_s)


def _number(value: float | int | None) -> float | None:
    return None if value is None else float(value)
