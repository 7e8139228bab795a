"""Causes in single replicas."""

from statistics import median

from controlplane.telemetry.explain.causes.cause import Cause, Evidence
from controlplane.telemetry.explain.observation import Observation, Replica

COLD_FACTOR = 2.0  # a cold request this many times as slow as a warm one
COLD_IMPACT = 0.02  # of the pool's E2E: less does not show in any percentile
SICK_FACTOR = 2.0  # this many times as slow as the median of the others, or as their share of errors
SICK_ERRORS = 0.05  # more errors than the others by this share of requests
SICK_REQUESTS = 20  # fewer prove nothing about a replica


def cold_replica(seen: Observation) -> Cause | None:
    """Requests met a replica before it was warm, and took a notable part of the pool's time."""
    cold = seen.cold_starts
    if cold is None or not cold.requests or cold.cold_e2e_ms < COLD_FACTOR * cold.warm_e2e_ms:
        return None
    impact_ms = (cold.cold_e2e_ms - cold.warm_e2e_ms) * cold.requests / max(seen.requests, cold.requests)
    if impact_ms < COLD_IMPACT * seen.e2e_ms:
        return None
    return Cause(
        "cold-replica",
        f"{cold.requests} request{'s' if cold.requests != 1 else ''} of {seen.pool} met a replica that was not warm yet",
        impact_ms,
        (
            Evidence("requests on a cold replica", cold.requests, "requests", 0),
            Evidence("their mean time", cold.cold_e2e_ms, "ms", cold.warm_e2e_ms),
        ),
    )


def no_replica_up(seen: Observation) -> Cause | None:
    """Requests failed because no replica was up."""
    if not seen.refused:
        return None
    requests = seen.requests + seen.failed
    return Cause(
        "no-replica-up",
        f"no replica of {seen.pool} was up for {seen.refused} of {requests} requests, which failed",
        0.0,
        (
            Evidence("requests without a replica", seen.refused, "requests", 0),
            Evidence("of the pool's requests", 100 * seen.refused / requests, "%", 0),
        ),
        failed=seen.refused,
    )


def sick_replica(seen: Observation) -> Cause | None:
    """One replica is far slower per token, or fails far more often, than the median of its siblings."""
    busy = [replica for replica in seen.replicas if replica.requests >= SICK_REQUESTS]
    if len(busy) < 2:
        return None
    worst: Cause | None = None
    for replica in busy:
        others = [other for other in busy if other is not replica]
        cause = _slower(seen, replica, others) or _failing(seen, replica, others)
        if cause is not None and (worst is None or cause.impact_ms > worst.impact_ms):
            worst = cause
    return worst


def _slower(seen: Observation, replica: Replica, others: list[Replica]) -> Cause | None:
    known = [other.model_ms for other in others if other.model_ms is not None]
    if not known or replica.model_ms is None:
        return None
    usual = median(known)
    if usual <= 0 or replica.model_ms < SICK_FACTOR * usual:
        return None
    return Cause(
        "sick-replica",
        f"{replica.name} of {seen.pool} takes {replica.model_ms / usual:.1f} times as long per token as its siblings",
        # What its requests lost if all their model time is per token, spread over the pool's requests.
        seen.stage_ms.get("model", seen.e2e_ms)
        * (1 - usual / replica.model_ms)
        * replica.requests
        / max(1, seen.requests),
        (
            Evidence(f"{replica.name}: model time per token", replica.model_ms, "ms", usual),
            Evidence("requests on it", replica.requests, "requests"),
        ),
    )


def _failing(seen: Observation, replica: Replica, others: list[Replica]) -> Cause | None:
    share = replica.errors / replica.requests
    usual = sum(other.errors for other in others) / sum(other.requests for other in others)
    if share < max(usual + SICK_ERRORS, SICK_FACTOR * usual):
        return None
    return Cause(
        "sick-replica",
        f"{replica.name} of {seen.pool} fails {share:.0%} of its requests, its siblings {usual:.0%}",
        seen.e2e_ms * (share - usual) * replica.requests / max(1, seen.requests),
        (
            Evidence(f"{replica.name}: failed", 100 * share, "%", 100 * usual),
            Evidence("requests on it", replica.requests, "requests"),
        ),
    )
