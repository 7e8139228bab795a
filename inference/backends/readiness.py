"""Says of each replica whether it serves, what it is, and why it does not fit: for /readyz and the metrics page."""

from collections.abc import Iterable
from typing import Any

from inference.backends.fleet import PoolState
from inference.backends.replica import Replica


def server(replica: Replica) -> dict[str, Any]:
    """One replica, for the body of /readyz. What was not found out is left out."""
    said: dict[str, Any] = {"state": replica.health.state}
    if replica.health.state != "up" and replica.reason:
        said["reason"] = replica.reason
    warming = replica.warming
    if warming.missing:
        said["warming"] = f"{warming.answered} of {warming.answered + warming.missing} warm-up requests answered"
    elif warming.given_up:
        said["warming"] = f"its warm-up was given up: {warming.given_up}"
    if replica.detected is not None:
        said |= {name: value for name, value in replica.detected._asdict().items() if value and name != "card"}
    return said


def pool(state: PoolState, with_servers: bool) -> dict[str, Any]:
    """A pool, for the body of /readyz. Names and versions of servers are not for everybody."""
    counts = {"ready": state.replicas_up, "replicas": len(state.replicas)}
    if warming := sum(replica.warming.kept_back for replica in state.replicas):
        counts["warming"] = warming
    if not with_servers:
        return counts
    return counts | {"servers": {replica.name: server(replica) for replica in state.replicas}}


def card(pools: Iterable[PoolState]) -> dict[str, Any]:
    """What the servers of these pools say of their model in their lists of models. Where they differ, the first one's counts, but
    the shortest context.
    """
    known = [replica.detected for state in pools for replica in state.replicas if replica.detected is not None]
    cards = [each.card for each in known if each.card]
    lengths = [length for each in cards if type(length := each.get("max_model_len")) is int]
    return {**cards[0], **({"max_model_len": min(lengths)} if lengths else {})} if cards else {}


DETECTED_LABELS = ("pool", "replica", "kind", "version", "signature", "fits")


def detected(pools: Iterable[PoolState]) -> dict[tuple[str, ...], float]:
    """The samples of `weir_gateway_replica_detected`: 1 for each replica that was found out."""
    return {
        (
            state.pool.name,
            replica.name,
            seen.kind,
            seen.version,
            seen.signature,
            "false" if seen.misfit else "true",
        ): 1.0
        for state in pools
        for replica in state.replicas
        if (seen := replica.detected) is not None
    }
