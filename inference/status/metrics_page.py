"""What the gateway's metrics page says of how things stand."""

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from inference.backends import readiness
from inference.backends.fleet import PoolState
from inference.observability.metrics import Labelled
from inference.status.labelled import PREFIX, alone, of_pool, of_replica

if TYPE_CHECKING:
    from inference.app import Gateway


def gauges(gateway: "Gateway") -> list[Labelled]:
    """States, now."""
    pools, watch, now_s = gateway.fleet.pools.values(), gateway.watch, time.monotonic()
    connections, held_bytes = gateway.connections()
    redis = gateway.redis
    writable: dict[tuple[str, ...], float] = {(): float(not redis.refusal)} if redis is not None and redis.up else {}
    faults: dict[tuple[str, ...], float] = {(fault.kind, fault.name): 1.0 for fault in gateway.faults()}
    refused: dict[tuple[str, ...], float] = {(gateway.export.refusal,): 1.0} if gateway.export.refusal else {}
    fault = gateway.certificate.fault if gateway.certificate is not None else ""
    unfit: dict[tuple[str, ...], float] = {(fault,): 1.0} if fault else {}
    about_unfit = "1 where clients refuse the certificate, or will soon, and why."
    about_spans = "1 where telemetry has taken none of the spans lately, and why."
    about_detected = "1 for each replica, with the server that it was found to be, and whether the pool can use it."
    about_ejected = "Whether the replica gets no requests for a while because its calls failed."
    about_held = "Bytes kept for clients: requests being read or answered, and answers not read."
    about_unknown = "Fields of the snapshot obeyed that this gateway does not know."
    about_faults = "1 for each part of the snapshot obeyed that cannot be."
    return [
        alone("connections", "Open client connections.", connections),
        alone("buffered_bytes", about_held, held_bytes),
        alone("requests_in_flight", "Completion requests being served.", gateway.completions.in_flight),
        alone("inferences_in_flight", "Inferences under way.", gateway.completions.caches.coalescer.in_flight),
        ("weir_gateway_replica_detected", about_detected, readiness.DETECTED_LABELS, readiness.detected(pools)),
        of_replica(pools, "ejected", about_ejected, lambda replica: replica.health.ejected(now_s)),
        of_pool(pools, "replicas_up", "Replicas of the pool whose model is ready.", lambda state: state.replicas_up),
        alone("cache_up", "Whether Redis answers.", redis is not None and redis.up),
        (f"{PREFIX}cache_writable", "Whether Redis takes writes; left out while it does not answer.", (), writable),
        alone("limits_local", "Whether this process counts limits alone.", gateway.limits.local),
        alone("policy_stale", "Whether a newer snapshot was refused.", bool(watch.error)),
        ("weir_gateway_policy_fault", about_faults, ("kind", "name"), faults),
        alone("policy_unknown_fields", about_unknown, len(watch.unknown)),
        (f"{PREFIX}certificate_fault", about_unfit, ("reason",), unfit),
        alone("spans_waiting", "Traces waiting to be sent.", gateway.export.waiting),
        (f"{PREFIX}spans_refused", about_spans, ("reason",), refused),
    ]


def counters(gateway: "Gateway") -> list[Labelled]:
    """What has happened since the start."""
    edge, limits, export = gateway.edge, gateway.limits, gateway.export

    def total(of: Callable[[PoolState], int]) -> int:
        return sum(map(of, gateway.fleet.pools.values()))

    about_local = "Requests with limits that this process counted alone."
    about_inputs = "Inputs of lists to embed, by whether the cache had them."
    about_written = "Bytes of answers, and of parts of them, that Redis took to keep, by routing rule."
    caches = gateway.completions.caches
    by_input = caches.by_input
    kept = caches.write_back.written + (by_input.written if by_input is not None else Counter())
    written: dict[tuple[str, ...], float] = dict(kept.items())
    inputs: dict[tuple[str, ...], float] = dict(by_input.counts.items()) if by_input is not None else {}
    guarded: dict[tuple[str, ...], float] = dict(gateway.completions.guards.counts.items())
    return [
        alone("connections_refused", "Connections refused because there were too many.", edge.refused),
        alone("connections_evicted", "Waiting connections without a key, ended to make room.", edge.evicted),
        alone("connections_timed_out", "Connections that were idle or sent too slowly.", edge.timed_out),
        alone("connections_unread", "Connections whose client did not read its answers.", edge.unread),
        alone("connections_shed", "Connections cut because all held too much memory.", edge.shed),
        alone("limits_counted_locally", about_local, limits.counted_locally),
        alone(
            "budget_costs_estimated", "Requests of keys with budgets whose cost was not known.", limits.costs_estimated
        ),
        (f"{PREFIX}guard", "What rules of tenants did, by rule and outcome.", ("rule", "outcome"), guarded),
        (f"{PREFIX}cache_inputs", about_inputs, ("model", "result"), inputs),
        (f"{PREFIX}cache_written_bytes", about_written, ("model", "rule"), written),
        alone("retries", "Attempts after a failed one, and hedges.", total(lambda it: it.retries.used)),
        alone("retries_denied", "Attempts over the retry budget.", total(lambda it: it.retries.denied)),
        alone("hedges", "Attempts beside a slow one.", total(lambda it: it.tally.hedges)),
        alone("fallbacks", "Requests that a fallback pool got.", total(lambda it: it.tally.fallbacks)),
        alone("policy_refused", "Snapshots that could not be obeyed.", gateway.watch.refused),
        alone("traces_exported", "Traces taken by the receiver.", export.exported),
        alone("traces_dropped", "Traces lost because the receiver did not take them.", export.dropped),
    ]
