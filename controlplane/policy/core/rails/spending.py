"""Rails of what a pool may use: GPUs, GPU-hours and money of a day, and the free GPUs of its cluster."""

from controlplane.policy.core.observation import fresh
from controlplane.policy.core.rails.case import Case, Verdict, alarm, lower
from controlplane.policy.core.words import replicas

SPENT_STALE_AFTER_S = 1_800.0
"""What was used is counted anew every few minutes."""
CAPACITIES = "admin, Plan → Pools' capacities"
GPUS = f"how many GPUs a replica has ({CAPACITIES})"
PRICE = f"the pool's GPU type ({CAPACITIES}) and what an hour of it costs (Plan → GPU types)"
NOT_COUNTED = "Its replicas have not been counted lately: see whether its cluster answers."
KNOWN_AGAIN = "It was not known earlier today what a replica costs: it is known again from 00:00 UTC on."


def gpu_hours(case: Case, count: int) -> Verdict | None:
    """Past the GPU-hours of a day a pool has `min` replicas."""
    limit = case.spec.budget.gpu_hours_per_day
    used = case.spent.gpu_hours_today if case.spent is not None else None
    missing = "" if case.facts.gpus_per_replica is not None else GPUS
    return _day(case, count, limit, used, "GPU-hours", missing)


def usd(case: Case, count: int) -> Verdict | None:
    """Past the money of a day a pool has `min` replicas."""
    limit = case.spec.budget.usd_per_day
    used = case.spent.usd_today if case.spent is not None else None
    missing = "" if case.facts.usd_per_replica_hour is not None else PRICE
    return _day(case, count, limit, used, "USD", missing)


def _day(case: Case, count: int, limit: float | None, used: float | None, unit: str, missing: str) -> Verdict | None:
    """`missing` is what nobody has entered without which the use is not known, and where."""
    if limit is None:
        return None
    pool = case.facts.pool
    if used is None or case.spent is None or not fresh(case.spent.age_ms, SPENT_STALE_AFTER_S):
        verdict = lower(count, case.seen, "")
        counted = case.spent is not None and fresh(case.spent.age_ms, SPENT_STALE_AFTER_S)
        remedy = NOT_COUNTED if not counted else f"Enter {missing}." if missing else KNOWN_AGAIN
        text = f"How many {unit} {pool} has used today is not known. No replica is added. {remedy}"
    else:
        # A person's count is not slowed: a budget takes nothing away from it at once, and lets it add nothing.
        most = case.spec.min if case.override is None else case.seen
        verdict = lower(count, most, "") if used >= limit else None
        text = (
            f"{pool} has used {used:.4g} {unit} today (UTC), and its budget is {limit:.4g}. "
            f"It may keep {replicas(most)}."
        )
    if verdict is None:
        return None
    return verdict._replace(reason=text, alarm=alarm("budget", pool, text, "ticket"))


def gpus(case: Case, count: int) -> Verdict | None:
    """The GPUs that the policy allows its pool."""
    limit, each = case.spec.budget.gpus, case.facts.gpus_per_replica
    if limit is None or each == 0:
        return None
    if each is None:
        verdict, pool = lower(count, case.seen, ""), case.facts.pool
        text = f"How many GPUs a replica of {pool} has is not known. No replica is added: enter it ({CAPACITIES})."
        return verdict and verdict._replace(reason=text, alarm=alarm("budget", pool, text, "ticket"))
    most = max(limit // each, min(case.seen, case.spec.min))  # what stands at `min` stays
    return lower(count, most, f"the budget is {limit} GPUs, and a replica has {each}")


def quota(case: Case, count: int) -> Verdict | None:
    """The free GPUs of the cluster, unless an autoscaler adds nodes."""
    facts, each = case.facts, case.facts.gpus_per_replica
    if case.spec.cluster_adds_nodes or not each or case.cluster is None or count <= case.seen:
        return None
    of_type = case.cluster.gpus.get(facts.gpu)
    if of_type is None:
        return None
    there = max(case.seen, facts.wanted or 0)
    placed = (facts.ready or 0) + (facts.starting or 0) + (facts.failing or 0)
    unplaced = max(0, there - placed - ((facts.pending or 0) if of_type.waiting_too else 0))
    free = max(0, of_type.free - case.reserved_gpus - unplaced * each)
    most = there + free // each
    if count <= most:
        return None
    name = facts.cluster or "the cluster"
    text = (
        f"{name} has {free} free GPUs of type {facts.gpu}, and {replicas(count - there)} more of {facts.pool} "
        f"would need {(count - there) * each}."
    )
    return Verdict(most, text, alarm=alarm("gpus", facts.pool, text, "page"))
