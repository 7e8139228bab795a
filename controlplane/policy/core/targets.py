"""The decision about a count: what the scaling law proposes, or what a person says, then the rails."""

import msgspec

from controlplane.policy.core import scaling
from controlplane.policy.core.decision import Action, Alarm, Candidate, Proposed, Rail, TargetDecision
from controlplane.policy.core.memory import TargetMemory
from controlplane.policy.core.observation import Observation, Override, Pause, PoolFacts
from controlplane.policy.core.rails.case import Case, alarm, cooperates, managed_count
from controlplane.policy.core.rails.rails import RAILS
from controlplane.policy.core.spec import InForce, ScalingSpec
from controlplane.policy.core.words import seconds

CAPS = ("max", "gpus", "gpu_hours", "usd", "quota")
"""Rails that no wait overcomes: a pool that they lower has all that it can get."""


class Judged(msgspec.Struct, frozen=True):
    decision: TargetDecision
    memory: TargetMemory
    alarms: tuple[Alarm, ...] = ()
    capped: bool = False
    """Whether it has as many replicas as it may have."""


def judge(
    spec: ScalingSpec,
    policy: InForce,
    observation: Observation,
    memory: TargetMemory,
    reserved: dict[tuple[str, str], int],
) -> Judged:
    """The decision about what `spec` scales. `reserved` are the GPUs that this tick has taken so far, by cluster and type."""
    facts = observation.pools.get(spec.target) or PoolFacts(spec.target)
    memory = remembered(spec, facts, memory, observation.now_ms)
    case = Case(
        observation.now_ms,
        spec,
        facts,
        memory,
        observation.clusters.get(facts.cluster),
        reserved.get((facts.cluster, facts.gpu), 0),
        observation.spent.get(spec.target),
        pause_of(observation, policy.name, facts.model, spec.target),
        override_of(observation, spec.target),
    )
    proposed = _proposed(case, observation)
    count, hold, rails, alarms = proposed.wanted, "", [], []
    for rail in RAILS:
        if hold == "all" or (hold and rail.on_hold == "nothing"):
            continue
        verdict = rail.apply(case, count)
        if verdict is not None and hold and rail.on_hold == "limit":
            verdict = verdict._replace(replicas=max(verdict.replicas, min(count, case.seen)))
        if verdict is None:
            continue
        rails.append(Rail(rail.name, count, verdict.replicas, verdict.reason))
        alarms += [verdict.alarm] if verdict.alarm else []
        count, hold = verdict.replicas, verdict.hold or hold
    decision = _decision(case, policy, proposed, count, hold, tuple(rails))
    capped = (
        count >= spec.max
        or any(rail.name == "pending" for rail in rails)
        or any(rail.name in CAPS and rail.after < rail.before for rail in rails)
    )
    alarms += _more_than_known(case, count)
    return Judged(decision, proposed.memory, tuple(alarms), capped)


def _more_than_known(case: Case, count: int) -> list[Alarm]:
    """A count that rests on what a replica has carried so far, and not on what it carries, may be too high for ever: it is said."""
    facts, spec = case.facts, case.spec
    by_lower_bound = facts.capacity_is_lower_bound and facts.capacity_rps and not spec.reactive.replica_rps
    if not by_lower_bound or case.override is not None or count <= max(spec.min, spec.warm_floor, 1):
        return []
    text = (
        f"A replica of {facts.pool} carries at least {facts.capacity_rps:.3g} requests/s, and no traffic has shown how much more: "
        f"fewer than {count} may be enough. Benchmark a replica."
    )
    return [alarm("capacity", facts.pool, text, "ticket")]


def pause_of(observation: Observation, policy: str, model: str, pool: str) -> Pause | None:
    """The pause of a policy, of its model or of its pool that lasts longest."""
    names = {"all": "", "policy": policy, "model": model, "pool": pool}
    pauses = [
        pause
        for pause in observation.pauses
        if pause.until_ms > observation.now_ms and (pause.scope == "all" or pause.target == names[pause.scope] != "")
    ]
    return max(pauses, key=lambda pause: pause.until_ms, default=None)


def override_of(observation: Observation, target: str) -> Override | None:
    """What a person said last of a count. The last of several counts."""
    overrides = [
        override
        for override in observation.overrides
        if override.until_ms > observation.now_ms and override.target == target and override.replicas is not None
    ]
    return overrides[-1] if overrides else None


def remembered(spec: ScalingSpec, facts: PoolFacts, memory: TargetMemory, now_ms: int) -> TargetMemory:
    """The memory with the step that the cluster has made since the last tick, whoever made it."""
    seen = managed_count(spec, facts)
    if seen is None:
        return memory
    reach_s = max(spec.rate.period_s, spec.scale_down.cooldown_s, facts.cold_start_s or 0.0)
    since_ms = now_ms - round(reach_s * 1_000)
    steps = tuple(step for step in memory.steps if step[0] > since_ms)
    if memory.seen is not None and seen != memory.seen:
        steps = (*steps, (now_ms, seen - memory.seen))
    owned = memory.owned or facts.owner_of_count == "weir"
    return msgspec.structs.replace(memory, seen=seen, steps=steps, owned=owned)


def _proposed(case: Case, observation: Observation) -> Proposed:
    override = case.override
    if override is None or override.replicas is None:
        plan = observation.plans.get(case.spec.target)
        return scaling.candidates(case.spec, case.facts, plan, case.memory, case.now_ms)
    left = seconds((override.until_ms - case.now_ms) / 1_000)
    reason = f"set by {override.by or 'a person'} for another {left}"
    reason += f": {override.reason}" if override.reason else ""
    candidate = Candidate(override.replicas, "override", reason)
    return Proposed((candidate,), override.replicas, reason, case.memory)


def _decision(
    case: Case, policy: InForce, proposed: Proposed, count: int, hold: str, rails: tuple[Rail, ...]
) -> TargetDecision:
    seen = managed_count(case.spec, case.facts)
    reason = rails[-1].reason if rails else proposed.reason
    wanted = None if seen is None else count
    action: Action
    if wanted is None or seen is None or (hold and wanted == seen):
        action = "hold"
    elif wanted == seen:
        action = "hold" if proposed.wanted != seen else "none"
    elif cooperates(case.spec, case.facts):
        action = "raise_floor"
    else:
        action = "up" if wanted > seen else "down"
    return TargetDecision(case.spec.target, policy.reference, seen, wanted, action, reason, proposed.candidates, rails)
