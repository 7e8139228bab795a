"""What the gateway's metrics page says of how things stand."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inference.backends import report
from inference.backends.fleet import Fleet, PoolState
from inference.contract.snapshot import Fault
from inference.observability.metrics import Labelled
from inference.observability.span_export import SpanExport
from inference.policy.snapshot_watch import SnapshotWatch
from inference.request.completions import Completions
from inference.request.limits import Limits
from inference.wires.http.exchange import EdgeCounts
from inference.wires.redis import RedisClient


@dataclass(frozen=True, slots=True)
class Observed:
    """The parts of the gateway whose figures the page has. `connections` gives their number, and the bytes that they hold."""

    fleet: Fleet
    completions: Completions
    limits: Limits
    redis: RedisClient | None
    watch: SnapshotWatch
    export: SpanExport
    edge: EdgeCounts
    connections: Callable[[], tuple[int, int]]
    faults: Callable[[], Iterable[Fault]]


def gauges(gateway: Observed) -> list[Labelled]:
    """States, now."""
    pools = gateway.fleet.pools
    replicas = [(pool, replica) for pool, state in pools.items() for replica in state.replicas]
    by_replica = ("pool", "replica")
    now_s = time.monotonic()
    connections, held_bytes = gateway.connections()
    return [
        ("weir_gateway_connections", "Open client connections.", (), {(): float(connections)}),
        (
            "weir_gateway_buffered_bytes",
            "Bytes kept for clients: requests being read or answered, and answers not read.",
            (),
            {(): float(held_bytes)},
        ),
        (
            "weir_gateway_requests_in_flight",
            "Completion requests being served.",
            (),
            {(): float(gateway.completions.in_flight)},
        ),
        (
            "weir_gateway_inferences_in_flight",
            "Inferences under way.",
            (),
            {(): float(gateway.completions.coalescer.in_flight)},
        ),
        (
            "weir_gateway_replica_detected",
            "1 for each replica, with the server that it was found to be, and whether the pool can use it.",
            report.DETECTED_LABELS,
            report.detected(pools.values()),
        ),
        (
            "weir_gateway_replica_ejected",
            "Whether the replica gets no requests for a while because its calls failed.",
            by_replica,
            {(pool, replica.name): float(replica.health.ejected(now_s)) for pool, replica in replicas},
        ),
        (
            "weir_gateway_pool_replicas_up",
            "Replicas of the pool whose model is ready.",
            ("pool",),
            {(name,): float(state.replicas_up) for name, state in pools.items()},
        ),
        (
            "weir_gateway_cache_up",
            "Whether Redis answers.",
            (),
            {(): float(gateway.redis is not None and gateway.redis.up)},
        ),
        (
            "weir_gateway_limits_local",
            "Whether this process counts limits alone.",
            (),
            {(): float(gateway.limits.local)},
        ),
        (
            "weir_gateway_policy_stale",
            "Whether a newer snapshot was refused.",
            (),
            {(): float(bool(gateway.watch.error))},
        ),
        (
            "weir_gateway_policy_fault",
            "1 for each part of the snapshot obeyed that cannot be.",
            ("kind", "name"),
            {(fault.kind, fault.name): 1.0 for fault in gateway.faults()},
        ),
        (
            "weir_gateway_policy_unknown_fields",
            "Fields of the snapshot obeyed that this gateway does not know.",
            (),
            {(): float(len(gateway.watch.unknown))},
        ),
        ("weir_gateway_spans_waiting", "Traces waiting to be sent.", (), {(): float(gateway.export.waiting)}),
    ]


def counters(gateway: Observed) -> list[tuple[str, str, float]]:
    """What has happened since the start."""
    edge, ended = gateway.edge, "weir_gateway_connections"

    def total(of: Callable[[PoolState], int]) -> float:
        return float(sum(map(of, gateway.fleet.pools.values())))

    return [
        (f"{ended}_refused", "Connections refused because there were too many.", float(edge.refused)),
        (f"{ended}_evicted", "Waiting connections without a key, ended to make room.", float(edge.evicted)),
        (f"{ended}_timed_out", "Connections that were idle or sent too slowly.", float(edge.timed_out)),
        (f"{ended}_unread", "Connections whose client did not read its answers.", float(edge.unread)),
        (f"{ended}_shed", "Connections cut because all held too much memory.", float(edge.shed)),
        (
            "weir_gateway_limits_counted_locally",
            "Requests with limits that this process counted alone.",
            float(gateway.limits.counted_locally),
        ),
        ("weir_gateway_retries", "Attempts after a failed one, and hedges.", total(lambda it: it.retries.used)),
        ("weir_gateway_retries_denied", "Attempts over the retry budget.", total(lambda it: it.retries.denied)),
        ("weir_gateway_hedges", "Attempts beside a slow one.", total(lambda it: it.tally.hedges)),
        ("weir_gateway_fallbacks", "Requests that a fallback pool got.", total(lambda it: it.tally.fallbacks)),
        ("weir_gateway_policy_refused", "Snapshots that could not be obeyed.", float(gateway.watch.refused)),
        ("weir_gateway_traces_exported", "Traces taken by the receiver.", float(gateway.export.exported)),
        (
            "weir_gateway_traces_dropped",
            "Traces lost because the receiver did not take them.",
            float(gateway.export.dropped),
        ),
    ]
