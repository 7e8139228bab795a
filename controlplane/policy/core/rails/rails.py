"""Rails: the limits that no scaling decision crosses. Each is a function of the case and of the count so far, and gives a verdict
where it changes the count or keeps it.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from controlplane.policy.core.conditions import holds
from controlplane.policy.core.observation import BURN_STALE_AFTER_S, CLUSTER_STALE_AFTER_S, BurnFacts, fresh
from controlplane.policy.core.pool_values import hold_values
from controlplane.policy.core.rails import owners, spending
from controlplane.policy.core.rails.case import Case, Verdict, alarm, lower, raise_
from controlplane.policy.core.scaling import level, serves, sized
from controlplane.policy.core.words import replicas, seconds


def cluster(case: Case, count: int) -> Verdict | None:
    """Counts of replicas that are missing or old: nothing is known, so nothing is done."""
    facts, seen = case.facts, case.cluster
    name = facts.cluster or "the cluster"
    if facts.disabled:  # an owner's choice, and no fault
        text = f"{facts.pool} is disabled in the admin. Nothing is done about its replicas until it is enabled."
        return Verdict(case.seen, text, hold="all")
    if facts.cluster_disabled:
        text = f"Cluster {name} of {facts.pool} is disabled in the admin. Nothing is done about its replicas until it is enabled."
        return Verdict(case.seen, text, hold="all")
    if seen is not None and seen.problem:
        return _stopped(case, "cluster", name, f"{name} cannot be read: {seen.problem}")
    if facts.problem:
        return _stopped(case, "unmanaged", facts.pool, f"{facts.pool} is not managed: {facts.problem}")
    if facts.wanted is None or not fresh(facts.cluster_age_ms, CLUSTER_STALE_AFTER_S):
        why = f": {seen.why_old}" if seen is not None and seen.why_old else ""
        return _stopped(case, "cluster", name, f"The replicas in {name} were {_last_seen(facts.cluster_age_ms)}{why}")
    return None


def _stopped(case: Case, kind: str, subject: str, text: str) -> Verdict:
    text = f"{text.rstrip('.')}. The count stays as it is."
    return Verdict(case.seen, text, alarm=alarm(kind, subject, text, "page"), hold="all")


def _last_seen(age_ms: int | None) -> str:
    return "never seen" if age_ms is None else f"last seen {seconds(age_ms / 1_000)} ago"


def metrics(case: Case, count: int) -> Verdict | None:
    """Traffic that is missing or old holds; signals of servers that the policy uses hold a step down."""
    if case.override is not None:
        return None
    facts, spec = case.facts, case.spec
    if not fresh(facts.traffic_age_ms, spec.stale_after_s):
        why = f": {facts.traffic_problem.rstrip('.')}" if facts.traffic_problem else ""
        text = f"The traffic of {facts.pool} was {_last_seen(facts.traffic_age_ms)}{why}. The count stays as it is."
        return Verdict(case.seen, text, alarm=alarm("metrics", facts.pool, text, "page"), hold="metrics")
    if facts.arrived_rps is None:  # the first reading after a start
        text = f"The traffic of {facts.pool} was read once, and a rate takes two readings. The count stays as it is."
        return Verdict(case.seen, text, alarm=alarm("metrics", facts.pool, text, "ticket"), hold="metrics")
    missing = [name for name in ("kv_use", "cpu_use") if getattr(spec.reactive, name) is not None]
    missing = [
        name for name in missing if getattr(facts, name) is None or not fresh(facts.servers_age_ms, spec.stale_after_s)
    ]
    missing += [key for key in spec.reactive.stored if level(facts, key) is None]
    burn = facts.burns.get(spec.objective or "", BurnFacts())
    burn_known = burn.burn_rate is not None and not burn.unjudged and fresh(burn.age_ms, BURN_STALE_AFTER_S)
    if spec.reactive.burn_rate is not None and not burn_known:
        missing.append(f"the burn rate of {spec.objective}")
    # While the ledger is not trusted the objective is not judged, and the share is that of requests of before.
    is_known = burn.bad_share is not None and not burn.unjudged and fresh(burn.bad_share_age_ms, BURN_STALE_AFTER_S)
    if spec.reactive.bad_share is not None and not is_known and (facts.arrived_rps or facts.in_flight):
        missing.append(f"the share of requests that miss {spec.objective}")
    if missing and count < case.seen:
        text = f"{' and '.join(missing)} of {facts.pool} is missing or old. No replica is removed."
        return Verdict(case.seen, text, alarm=alarm("metrics", facts.pool, text, "ticket"), hold="metrics")
    return None


def hold_when(case: Case, count: int) -> Verdict | None:
    """The owner's condition. Unknown holds too."""
    if case.override is not None or not case.spec.hold_when:
        return None
    truth = holds(case.spec.hold_when, "hold", hold_values(case.facts, case.cluster, case.now_ms))
    if truth.holds is None:
        text = (
            f"hold_when of {case.facts.pool} is unknown without {', '.join(truth.unknown)}. The count stays as it is."
        )
        return Verdict(case.seen, text, alarm=alarm("condition", case.facts.pool, text, "ticket"), hold="metrics")
    return Verdict(case.seen, f"hold_when holds: {case.spec.hold_when}", hold="owner") if truth.holds else None


def step_up(case: Case, count: int) -> Verdict | None:
    most = case.spec.scale_up.max_step
    if case.override is not None or most is None:
        return None
    return lower(count, case.seen + most, f"a step adds at most {replicas(most)}")


def step_down(case: Case, count: int) -> Verdict | None:
    if case.override is not None:
        return None
    most = case.spec.scale_down.max_step
    return raise_(count, case.seen - most, f"a step removes at most {replicas(most)}")


def cooldown(case: Case, count: int) -> Verdict | None:
    """No step down soon after any other step."""
    if case.override is not None or count >= case.seen or not case.memory.steps:
        return None
    last_ms, cooldown_s = case.memory.steps[-1][0], case.spec.scale_down.cooldown_s
    left_s = cooldown_s - (case.now_ms - last_ms) / 1_000
    if left_s <= 0:
        return None
    return Verdict(case.seen, f"the last step was less than {seconds(cooldown_s)} ago")


def rate(case: Case, count: int) -> Verdict | None:
    """The most replicas added and removed in a period, as seen in the cluster."""
    limits = case.spec.rate
    if case.override is not None:
        return None
    since_ms = case.now_ms - round(limits.period_s * 1_000)
    steps = [change for at_ms, change in case.memory.steps if at_ms > since_ms]
    if count > case.seen and limits.max_up is not None:
        added = sum(change for change in steps if change > 0)
        reason = f"{added} of at most {replicas(limits.max_up)} were added within {seconds(limits.period_s)}"
        return lower(count, case.seen + max(0, limits.max_up - added), reason)
    if count < case.seen and limits.max_down is not None:
        removed = -sum(change for change in steps if change < 0)
        reason = f"{removed} of at most {replicas(limits.max_down)} were removed within {seconds(limits.period_s)}"
        return raise_(count, case.seen - max(0, limits.max_down - removed), reason)
    return None


def maximum(case: Case, count: int) -> Verdict | None:
    return lower(count, case.spec.max, f"max is {case.spec.max}")


def minimum(case: Case, count: int) -> Verdict | None:
    """Nothing but what a person says goes below it."""
    return None if case.override is not None else raise_(count, case.spec.min, f"min is {case.spec.min}")


def in_flight(case: Case, count: int) -> Verdict | None:
    """As many replicas stay as the requests in flight need places."""
    if count >= case.seen:
        return None
    facts = case.facts
    if facts.in_flight is None:
        pool = facts.pool
        text = f"How many requests {pool} has in flight is not known. No replica is removed."
        return Verdict(case.seen, text, alarm=alarm("metrics", pool, text, "ticket"))
    busy = facts.in_flight - (facts.lines_in_flight or 0.0)  # lines fill what is there: a drain lets them end
    needed = math.ceil(busy / facts.slots - 1e-9) if facts.slots else int(busy > 0)
    reason = f"{busy:g} requests in flight need {replicas(needed)}"
    return raise_(count, min(case.seen, needed), reason)


def capacity(case: Case, count: int) -> Verdict | None:
    """What a replica carries is not known, so nobody knows that fewer are enough."""
    if case.override is not None or count >= case.seen or sized(case.spec, case.facts):
        return None
    pool = case.facts.pool
    text = (
        f"What a replica of {pool} carries is not known, so none of its {replicas(case.seen)} is removed. Enter its "
        f"capacity (`reactive.replica_rps`), measure it (`weir bench --search --into-fleet {pool}`), or wait until requests "
        "at the objective have shown it."
    )
    return Verdict(case.seen, text, alarm=alarm("capacity", pool, text, "page"))


def failing(case: Case, count: int) -> Verdict | None:
    """Replicas whose containers crash or cannot be created."""
    facts = case.facts
    if not facts.failing:
        return None
    text = f"{replicas(facts.failing)} of {facts.pool} cannot run: {facts.failing_reason.rstrip('.')}."
    return Verdict(count, text, alarm=alarm("failing", facts.pool, text, "page"))


def outage(case: Case, count: int) -> Verdict | None:
    """While no replica serves, or not all requests reach one, the load of now says nothing of what is needed."""
    facts, pool = case.facts, case.facts.pool
    if case.override is not None or count >= case.seen or (serves(facts) and not facts.cut_off):
        return None
    text = "so its load does not say what is needed. None is removed."
    if serves(facts):
        text = f"{facts.cut_off} of the gateways {'reaches' if facts.cut_off == 1 else 'reach'} no replica of {pool}, {text}"
    elif facts.reachable is False:
        text = f"No gateway reaches a replica of {pool}, {text}"
    else:
        return Verdict(case.seen, f"No replica of {pool} is ready, {text}")
    return Verdict(case.seen, text, alarm=alarm("metrics", pool, text, "ticket"))


def rollout(case: Case, count: int) -> Verdict | None:
    """While replicas of an older template are replaced, the cluster would choose which of both are removed."""
    facts = case.facts
    if not facts.rollout:
        return None
    kept = count if case.override is not None else max(count, case.seen)
    said = alarm("rollout", facts.pool, facts.rollout, "page") if facts.rollout_stuck else None
    return Verdict(kept, facts.rollout, alarm=said) if said or kept != count else None


def pending(case: Case, count: int) -> Verdict | None:
    """Replicas that got no node within the deadline stay asked for, since an autoscaler of nodes adds them for pods that wait. No
    more are asked for until they have one.
    """
    facts, spec = case.facts, case.spec
    waited_ms = case.now_ms - facts.pending_since_ms if facts.pending_since_ms is not None else 0
    if case.override is not None or count < case.seen or not facts.pending:
        return None
    if waited_ms < spec.pending_deadline_s * 1_000:
        return None
    why = f": {facts.pending_reason.rstrip('.')}" if facts.pending_reason else ""
    text = (
        f"{replicas(facts.pending)} of {facts.pool} got no node within {seconds(spec.pending_deadline_s)}{why}. "
        "They stay asked for, and no more are until they have one."
    )
    return Verdict(case.seen, text, alarm=alarm("pending", facts.pool, text, "page"))


def pause(case: Case, count: int) -> Verdict | None:
    """While a person pauses it, nothing is done."""
    if case.pause is None:
        return None
    left = seconds((case.pause.until_ms - case.now_ms) / 1_000)
    by = f" by {case.pause.by}" if case.pause.by else ""
    why = f": {case.pause.reason}" if case.pause.reason else ""
    return Verdict(case.seen, f"paused{by} for another {left}{why}", hold="all")


class NamedRail(NamedTuple):
    """`on_hold` says what it may do while another rail holds the count: nothing, limit what is added, or all."""

    name: str
    apply: Callable[[Case, int], Verdict | None]
    on_hold: Literal["nothing", "limit", "all"] = "nothing"


RAILS = (
    NamedRail("cluster", cluster, "all"),
    NamedRail("metrics", metrics, "all"),
    NamedRail("hold_when", hold_when, "all"),
    NamedRail("capacity", capacity),
    NamedRail("gpu_hours", spending.gpu_hours),
    NamedRail("usd", spending.usd),
    NamedRail("step_up", step_up),
    NamedRail("step_down", step_down),
    NamedRail("cooldown", cooldown),
    NamedRail("rate", rate),
    NamedRail("max", maximum),
    NamedRail("min", minimum, "all"),
    NamedRail("gpus", spending.gpus, "limit"),
    NamedRail("in_flight", in_flight),
    NamedRail("quota", spending.quota, "all"),
    NamedRail("failing", failing, "all"),
    NamedRail("outage", outage, "all"),
    NamedRail("rollout", rollout, "all"),
    NamedRail("pending", pending, "all"),
    NamedRail("other_owner", owners.other_owner, "all"),
    NamedRail("pause", pause, "all"),
)
"""In the order in which they are applied. What comes later wins."""
