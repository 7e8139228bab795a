"""What no observation, policy or memory can bring about."""

from hypothesis import given, settings

from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision, TargetDecision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import CLUSTER_STALE_AFTER_S, Observation, fresh
from controlplane.policy.core.rails.case import managed_count
from controlplane.policy.core.record import decode, encode, record_of, replay
from controlplane.policy.core.spec import InForce, Scaling, ScalingSpec
from tests.support.policy.cases import POOL
from tests.support.policy.strategies import OTHERS, memories, observations, scalings
from tests.support.soak import sized


def decided(observation: Observation, policy: InForce, memory: Memory) -> tuple[Decision, TargetDecision, ScalingSpec]:
    decision = decide(observation, [policy, *OTHERS], memory)
    assert isinstance(policy.policy, Scaling)
    return decision, decision.targets[POOL], policy.policy.spec


@settings(max_examples=sized(45, soak=600))
@given(observations, scalings(), memories)
def test_rails_hold_whatever_is_seen(observation: Observation, policy: InForce, memory: Memory) -> None:
    _, target, spec = decided(observation, policy, memory)
    facts, now_ms = observation.pools[POOL], observation.now_ms
    seen = managed_count(spec, facts)
    assert target.seen == seen
    if seen is None:
        assert (target.action, target.wanted) == ("hold", None)
        return
    wanted = target.wanted
    assert wanted is not None
    assert (target.action in ("none", "hold")) == (wanted == seen)
    assert wanted <= max(spec.max, seen)
    overridden = any(override.until_ms > now_ms for override in observation.overrides)
    assert wanted >= min(spec.min, seen) or overridden, "nothing but a person goes below min"
    cluster = observation.clusters["eu"]
    if facts.problem or cluster.problem or not fresh(facts.cluster_age_ms, CLUSTER_STALE_AFTER_S):
        assert wanted == seen
    if any(pause.until_ms > now_ms for pause in observation.pauses):
        assert wanted == seen
    if not fresh(facts.traffic_age_ms, spec.stale_after_s) and not overridden:
        assert seen <= wanted <= max(seen, spec.min)
    if facts.in_flight is None:
        assert wanted >= seen
    if facts.in_flight is not None and facts.slots and wanted < seen:
        assert wanted * facts.slots >= min(facts.in_flight, seen * facts.slots) - 1e-6
    budgets = {"max", "gpus", "gpu_hours", "usd", "other_owner"} & {rail.name for rail in target.rails}
    if facts.capacity_rps is None and facts.kv_use is None and not overridden and not budgets:
        assert wanted >= seen, "nobody knows that fewer are enough"
    if (facts.rollout or (facts.failing and not facts.ready)) and not overridden:
        assert wanted >= seen
    if spec.budget.gpus is not None and facts.gpus_per_replica and wanted > seen:
        assert wanted * facts.gpus_per_replica <= spec.budget.gpus


@settings(max_examples=sized(20, soak=240))
@given(observations, scalings(), memories)
def test_a_record_replays_byte_for_byte(observation: Observation, policy: InForce, memory: Memory) -> None:
    decision, _, _ = decided(observation, policy, memory)
    policies = [policy, *OTHERS]
    raw = encode(record_of(observation, policies, memory, decision))
    record = decode(raw)
    assert encode(record) == raw
    assert replay(record, {each.id: each.policy for each in policies}) == encode(decision) == encode(record.decision)


@settings(max_examples=sized(20, soak=240))
@given(observations, scalings(), memories)
def test_what_was_decided_is_decided_again_until_it_is_done(
    observation: Observation, policy: InForce, memory: Memory
) -> None:
    first, target, _ = decided(observation, policy, memory)
    _, again, _ = decided(observation, policy, first.memory)
    assert (again.wanted, again.action) == (target.wanted, target.action)


@settings(max_examples=sized(20, soak=240))
@given(observations, scalings(), memories)
def test_all_that_changes_a_count_is_said_in_order(observation: Observation, policy: InForce, memory: Memory) -> None:
    _, target, _ = decided(observation, policy, memory)
    if target.wanted is None:
        return
    for before, after in zip(target.rails, target.rails[1:], strict=False):
        assert before.after == after.before
    if target.rails:
        assert (target.rails[-1].after, target.rails[-1].reason) == (target.wanted, target.reason)
    assert all(rail.reason for rail in target.rails)
    assert all(candidate.reason for candidate in target.candidates)
