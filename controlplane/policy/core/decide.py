"""What a tick concludes from what it has seen: the one judge of controller, shadow, preview and replay."""

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from controlplane.policy.core import canary, targets
from controlplane.policy.core.conditions import Value
from controlplane.policy.core.decision import Alarm, Decision, ModelDecision
from controlplane.policy.core.memory import CanaryMemory, FailoverMemory, LadderMemory, Memory, TargetMemory
from controlplane.policy.core.observation import ModelFacts, Observation, PoolFacts
from controlplane.policy.core.overlay import failover, ladder
from controlplane.policy.core.pool_values import clock, pool_values
from controlplane.policy.core.spec import (
    Canary,
    CanarySpec,
    Degradation,
    DegradationSpec,
    InForce,
    Policy,
    Routing,
    RoutingSpec,
    Scaling,
)

VERSION = 6
"""Of `decide`. A change that makes a record replay to another decision gets the next number."""


def decide(observation: Observation, policies: Sequence[InForce], memory: Memory) -> Decision:
    """The decisions about all that `policies` are about. Pure: the same arguments give the same decision."""
    ordered = sorted(policies, key=lambda policy: (policy.name, policy.revision))
    scaled, counts, alarms = _targets(observation, ordered, memory)
    alarms += _clashes(ordered)
    models = _Models(observation, memory, {name: judged.capped for name, judged in scaled.items()})
    for policy in ordered:
        models.follow(policy)
    after = Memory(counts, models.ladders, models.failovers, models.canaries)
    decisions = {name: judged.decision for name, judged in scaled.items()}
    unique = {alarm.key: alarm for alarm in reversed([*alarms, *models.alarms])}
    return Decision(VERSION, decisions, models.decisions(), tuple(unique[key] for key in sorted(unique)), after)


def _targets(
    observation: Observation, policies: Sequence[InForce], memory: Memory
) -> tuple[dict[str, targets.Judged], dict[str, TargetMemory], list[Alarm]]:
    """The counts, each by the first policy of its target. GPUs that an earlier one takes are not free for a later one."""
    scaled: dict[str, targets.Judged] = {}
    reserved: dict[tuple[str, str], int] = {}
    for policy in policies:
        if not isinstance(policy.policy, Scaling) or policy.policy.spec.target in scaled:
            continue
        spec = policy.policy.spec
        judged = targets.judge(spec, policy, observation, memory.targets.get(spec.target, TargetMemory()), reserved)
        scaled[spec.target] = judged
        facts = observation.pools.get(spec.target)
        if facts is not None and judged.decision.action == "up":
            added = (judged.decision.wanted or 0) - (judged.decision.seen or 0)
            place = (facts.cluster, facts.gpu)
            reserved[place] = reserved.get(place, 0) + added * (facts.gpus_per_replica or 0)
    counts = {target: judged.memory for target, judged in scaled.items()}
    return scaled, counts, [alarm for judged in scaled.values() for alarm in judged.alarms]


def _clashes(policies: Sequence[InForce]) -> Iterator[Alarm]:
    """Policies that are about the same as an earlier one, and are not followed."""
    first: dict[tuple[str, str], str] = {}
    for policy in policies:
        subject = subject_of(policy.policy)
        before = first.setdefault((policy.policy.__class__.__name__, subject), policy.name)
        if before != policy.name:
            text = f"{policy.name} is not followed, because {before} is about {subject} too: retire either."
            yield Alarm(f"clash:{policy.name}", "clash", subject, text)


def subject_of(policy: Policy) -> str:
    """What a policy is about: a pool, the API tier of a cluster, or a model. Of each kind a subject has a single policy."""
    return policy.spec.target if isinstance(policy, Scaling) else policy.spec.model


class _Models:
    """The decisions about models, as they are made policy by policy."""

    def __init__(self, observation: Observation, memory: Memory, capped: Mapping[str, bool]) -> None:
        self.observation, self.memory, self.capped = observation, memory, capped
        self.ladders: dict[str, dict[str, LadderMemory]] = {}
        self.failovers: dict[str, dict[str, FailoverMemory]] = {}
        self.canaries: dict[str, CanaryMemory] = {}
        self.alarms: list[Alarm] = []
        self._decisions: dict[str, ModelDecision] = {}
        self._followed: set[tuple[str, str]] = set()

    def decisions(self) -> dict[str, ModelDecision]:
        return self._decisions

    def follow(self, policy: InForce) -> None:
        """Follow a routing, degradation or canary policy, unless the model has another of its kind."""
        document = policy.policy
        if isinstance(document, Scaling):
            return
        kind, model = document.__class__.__name__, document.spec.model
        if (kind, model) in self._followed:
            return
        self._followed.add((kind, model))
        before = self._decisions.get(model, ModelDecision(model))
        facts = self.observation.models.get(model, ModelFacts(model))
        paused = targets.pause_of(self.observation, policy.name, model, "") is not None
        changed = structs.replace(before, policies=(*before.policies, policy.reference), transitions=())
        match document:
            case Routing(spec=routing_spec):
                changed = self._route(routing_spec, facts, changed, paused=paused)
            case Degradation(spec=ladder_spec):
                changed = self._degrade(ladder_spec, policy, facts, changed, paused=paused)
            case Canary(spec=canary_spec):
                changed = self._canary(canary_spec, policy, changed, paused=paused)
        own = tuple(structs.replace(each, policy=policy.reference) for each in changed.transitions)
        self._decisions[model] = structs.replace(changed, transitions=(*before.transitions, *own))

    def _route(self, spec: RoutingSpec, facts: ModelFacts, before: ModelDecision, *, paused: bool) -> ModelDecision:
        observation = self.observation
        memory = self.memory.failovers.get(spec.model, {})
        pools, clusters = observation.pools, observation.clusters
        after = failover.fail_over(spec, memory, pools, clusters, facts, observation.now_ms, paused=paused)
        if after.memory:
            self.failovers[spec.model] = after.memory
        self.alarms += after.alarms
        return structs.replace(before, moved=after.moved, transitions=after.transitions)

    def _degrade(
        self, spec: DegradationSpec, policy: InForce, facts: ModelFacts, before: ModelDecision, *, paused: bool
    ) -> ModelDecision:
        observation = self.observation
        now_ms = observation.now_ms
        overrides = [
            override
            for override in observation.overrides
            if override.until_ms > now_ms and override.model == spec.model and override.level is not None
        ]
        memory = self.memory.ladders.get(spec.model, {})
        values = self._ladder_values(facts, spec.stale_after_s)
        climbed = ladder.climb(spec, policy.reference, memory, facts, values, now_ms, overrides, paused=paused)
        if climbed.memory:
            self.ladders[spec.model] = climbed.memory
        self.alarms += climbed.alarms
        return structs.replace(before, degradation=climbed.degradation, transitions=climbed.transitions)

    def _ladder_values(self, facts: ModelFacts, stale_after_s: float) -> dict[str, Value]:
        """Of the model's own pools: a fallback may be a pool of another model, with a load of its own."""
        pools = [self.observation.pools.get(pool, PoolFacts(pool)) for pool in facts.pools]
        own = [pool for pool in pools if pool.model in ("", facts.model)]
        values = pool_values(own, stale_after_s) | clock(self.observation.now_ms)
        values["at_most"] = all(self.capped.get(pool.pool, True) for pool in own)
        if facts.disabled:
            values["arrived_rps"] = 0.0
        return values

    def _canary(self, spec: CanarySpec, policy: InForce, before: ModelDecision, *, paused: bool) -> ModelDecision:
        counts = None if paused else self.observation.canaries.get(policy.name)
        waits = canary.waits_for(spec.candidate, self.observation.pools.get(spec.candidate))
        if paused:
            spec, waits = structs.replace(spec, conclude=None, time_limit_s=math.inf), "the policy is paused"
        now_ms = self.observation.now_ms
        memory = canary.clocked(self.memory.canaries.get(policy.name), now_ms, paused=paused)
        advanced = canary.advance(policy.name, spec, policy.spec_digest, counts, memory, now_ms, waits)
        if advanced.memory is not None:
            self.canaries[policy.name] = advanced.memory
        self.alarms += (advanced.alarm,) if advanced.alarm else ()
        moved = (advanced.transition,) if advanced.transition else ()
        return structs.replace(before, canary=advanced.percent, transitions=moved)
