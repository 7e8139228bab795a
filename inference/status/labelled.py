"""Figures with their names and labels, as `/metrics` and `/signals` have them."""

from collections.abc import Callable, Iterable

from inference.backends.fleet import PoolState
from inference.backends.replica import Replica
from inference.observability.metrics import Labelled

PREFIX = "weir_gateway_"


def alone(name: str, text: str, value: float) -> Labelled:
    """A figure of the process."""
    return PREFIX + name, text, (), {(): float(value)}


def of_pools(
    pools: Iterable[PoolState], name: str, text: str, label: str, values: Callable[[PoolState], dict[str, float]]
) -> Labelled:
    """Several figures of each pool, by `label`."""
    by_pool: dict[tuple[str, ...], float] = {
        (state.pool.name, key): value for state in pools for key, value in values(state).items()
    }
    return PREFIX + name, text, ("pool", label), by_pool


def of_pool(pools: Iterable[PoolState], name: str, text: str, value: Callable[[PoolState], float]) -> Labelled:
    return f"{PREFIX}pool_{name}", text, ("pool",), {(state.pool.name,): float(value(state)) for state in pools}


def of_replica(pools: Iterable[PoolState], name: str, text: str, value: Callable[[Replica], float | None]) -> Labelled:
    """A figure of each replica; left out where it is not known, which is not 0."""
    replicas = ((state.pool.name, replica) for state in pools for replica in state.replicas)
    known: dict[tuple[str, ...], float] = {
        (pool, replica.name): float(it) for pool, replica in replicas if (it := value(replica)) is not None
    }
    return f"{PREFIX}replica_{name}", text, ("pool", "replica"), known
