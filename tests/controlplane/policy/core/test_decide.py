"""A whole tick: counts behind their rails, ladders, failovers and canaries, and what is remembered."""

from typing import Any

import pytest
from msgspec import structs

from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision, TargetDecision
from controlplane.policy.core.memory import Memory, TargetMemory
from controlplane.policy.core.observation import (
    ClusterFacts,
    Gpus,
    ModelFacts,
    Observation,
    Override,
    Pause,
    PoolFacts,
    TierFacts,
)
from controlplane.policy.core.spec import InForce
from tests.support.policy.cases import NOW_MS, POOL, policy, pool, scaling, seen

SHED = {"name": "shed", "enter": "queue_delay_s > 2.0", "exit": "queue_delay_s < 1.0", "shed": {}, "min_stay_s": 0}
LADDER = {"model": "chat", "tiers": ["batch"], "steps": [SHED]}
FAILOVER = {"model": "chat", "failover": [{"name": "down", "pools": [POOL], "to": {"far": 1}}]}
UNTIL_MS = NOW_MS + 60_000
NEW = structs.replace(pool(), pool="new")


def set_to(count: int, target: str = POOL) -> Override:
    return Override(UNTIL_MS, target, count, by="ada")


def target(observation: Observation, spec: InForce, memory: Memory | None = None) -> TargetDecision:
    return decide(observation, [spec], memory or Memory()).targets[POOL]


def test_no_policy_no_action() -> None:
    decision = decide(seen(pool(arrived_rps=900.0)), [], Memory({POOL: TargetMemory(seen=3)}))
    assert decision == Decision(decision.version)


@pytest.mark.parametrize(
    ("spec", "said"), [({}, True), ({"min": 4}, False), ({"reactive": {"replica_rps": 10}}, False)]
)
def test_a_count_that_rests_on_a_lower_bound_is_said(spec: dict[str, Any], said: bool) -> None:
    decision = decide(seen(pool(capacity_is_lower_bound=True)), [scaling(**spec)], Memory())
    assert [(alarm.kind, alarm.severity) for alarm in decision.alarms] == [("capacity", "ticket")] * said
    assert all("fewer than 4 may be enough. Benchmark a replica." in alarm.text for alarm in decision.alarms)


@pytest.mark.parametrize("capacity_rps", [10.0, None])
def test_a_pool_without_replicas_gets_one_for_the_first_request_and_keeps_asking_for_it(
    capacity_rps: float | None,
) -> None:
    empty = pool(wanted=0, ready=0, arrived_rps=0.0, in_flight=0.0, reachable=False, capacity_rps=capacity_rps)
    spec, memory = scaling(min=0), Memory()
    asked = []
    for tick in range(600):
        facts = structs.replace(empty, arrived_rps=1.0 if tick == 300 else 0.0)
        decision = decide(seen(facts, now_ms=NOW_MS + 1_000 * tick), [spec], memory)
        memory = decision.memory
        asked.append(decision.targets[POOL].wanted)
    assert asked == [0] * 300 + [1] * 300, "one request, and nobody calls again before a replica is ready"


def test_a_target_that_was_never_seen_is_held_and_reported() -> None:
    decision = decide(seen(), [scaling()], Memory())
    decided = decision.targets[POOL]
    assert (decided.action, decided.seen, decided.wanted) == ("hold", None, None)
    assert [alarm.kind for alarm in decision.alarms] == ["cluster"]


def test_while_held_a_count_is_still_brought_up_to_its_minimum() -> None:
    blind = seen(pool(traffic_age_ms=None))
    assert target(blind, scaling(min=2)).action == "hold"
    decided = target(blind, scaling(min=6))
    assert (decided.action, decided.wanted) == ("up", 6)
    assert [(rail.name, rail.before, rail.after) for rail in decided.rails][-1] == ("min", 4, 6)


def test_steps_are_those_that_the_cluster_has_made() -> None:
    memory = Memory({POOL: TargetMemory(seen=6, owned=True, steps=((NOW_MS - 700_000, 1), (NOW_MS - 9_000, 2)))})
    after = decide(seen(pool()), [scaling()], memory).memory.targets[POOL]
    assert (after.seen, after.steps) == (4, ((NOW_MS - 9_000, 2), (NOW_MS, -2)))


def test_a_step_that_the_cluster_has_not_made_yet_is_decided_again() -> None:
    memory = Memory()
    for tick in range(3):
        observation = seen(pool(in_flight=0.0), now_ms=NOW_MS + tick * 1_000, overrides=(set_to(3),))
        decision = decide(observation, [scaling()], memory)
        assert (decision.targets[POOL].action, decision.targets[POOL].wanted) == ("down", 3)
        memory = decision.memory


def test_a_persons_count_is_the_only_candidate_and_rails_still_hold_it() -> None:
    decided = target(seen(pool(), overrides=(set_to(40),)), scaling())
    assert [(candidate.source, candidate.count) for candidate in decided.candidates] == [("override", 40)]
    assert decided.candidates[0].reason == "set by ada for another 60 s"
    assert decided.wanted == 10
    ended = structs.replace(set_to(40), until_ms=NOW_MS)
    assert target(seen(pool(), overrides=(ended,)), scaling()).candidates[0].source != "override"


@pytest.mark.parametrize(
    ("pause", "holds"),
    [
        (Pause(UNTIL_MS), True),
        (Pause(UNTIL_MS, "policy", "scale"), True),
        (Pause(UNTIL_MS, "model", "chat"), True),
        (Pause(UNTIL_MS, "pool", POOL), True),
        (Pause(NOW_MS), False),
        (Pause(UNTIL_MS, "pool", "other"), False),
        (Pause(UNTIL_MS, "policy", "x"), False),
    ],
)
def test_a_pause_of_what_it_is_about_holds_a_count_until_its_end(pause: Pause, holds: bool) -> None:
    decided = target(seen(pool(arrived_rps=75.0), pauses=(pause,)), scaling())
    assert decided.action == ("hold" if holds else "up")
    if holds:
        assert (decided.wanted, decided.rails[-1].name) == (4, "pause")
        assert decided.rails[-1].before > 4


def test_gpus_that_a_pool_takes_are_not_free_for_the_next() -> None:
    gpus = {"eu": ClusterFacts("eu", 500, gpus={"h100": Gpus(24, 16)})}
    pools = [structs.replace(pool(), pool=name) for name in ("a", "b")]
    policies = [policy("Scaling", {"pool": name, "max": 9}, name) for name in ("a", "b")]
    decision = decide(seen(*pools, clusters=gpus, overrides=(set_to(7, "a"), set_to(7, "b"))), policies, Memory())
    assert [decision.targets[name].wanted for name in ("a", "b")] == [7, 5]
    assert [alarm.key for alarm in decision.alarms] == ["gpus:b"]


def test_replicas_without_a_node_stay_asked_for_and_growth_ends_with_them() -> None:
    waiting = {"arrived_rps": 75.0, "wanted": 6, "pending": 2, "pending_since_ms": NOW_MS - 900_000}
    decision = decide(seen(pool(**waiting)), [scaling()], Memory())
    assert (decision.targets[POOL].action, decision.targets[POOL].wanted) == ("hold", 6)
    assert [alarm.key for alarm in decision.alarms] == ["pending:chat-eu"]
    placed = pool(arrived_rps=75.0, wanted=6, ready=6)
    again = decide(seen(placed, now_ms=NOW_MS + 1_000), [scaling()], decision.memory)
    assert (again.targets[POOL].action, again.targets[POOL].wanted, again.alarms) == ("up", 10, ())


def test_of_two_policies_of_a_pool_the_first_is_followed_and_people_know() -> None:
    policies = [policy("Scaling", {"pool": POOL, "max": most}, name) for name, most in (("z", 5), ("a", 3))]
    decision = decide(seen(pool()), policies, Memory())
    assert decision.targets[POOL].policy == "a@1"
    assert [alarm.text for alarm in decision.alarms] == [
        "z is not followed, because a is about chat-eu too: retire either."
    ]


def model(**tiers: TierFacts) -> dict[str, ModelFacts]:
    return {"chat": ModelFacts("chat", (POOL,), tiers)}


def test_a_canary_whose_description_or_team_is_edited_goes_on() -> None:
    before = policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "new"}, "canary")
    metadata = structs.replace(before.policy.metadata, team="search", description="Try the new one.")
    texts = structs.replace(before, digest="another", policy=structs.replace(before.policy, metadata=metadata))
    spec = structs.replace(
        before, policy=structs.replace(before.policy, spec=structs.replace(before.policy.spec, steps=(7,)))
    )
    memory = decide(seen(pool(), NEW), [before], Memory()).memory
    ended = structs.replace(memory.canaries["canary"], outcome="rolled_back", ended_ms=NOW_MS)
    for edited, percent in ((texts, 0), (spec, 7)):
        decision = decide(seen(pool(), NEW), [edited], Memory(canaries={"canary": ended}))
        assert decision.models["chat"].canary == {POOL: 100 - percent, "new": percent}


def test_a_ladder_a_failover_and_a_canary_lie_over_the_same_model() -> None:
    policies = [
        policy("Degradation", LADDER, "ladder"),
        policy("Routing", FAILOVER, "route"),
        policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "new"}, "canary"),
    ]
    observation = seen(pool(queue_delay_s=3.0, reachable=False), NEW, models=model())
    decided = decide(observation, policies, Memory()).models["chat"]
    assert decided.moved == {POOL: {"far": 1}}
    assert decided.canary == {POOL: 95, "new": 5}
    assert [(step.tier, step.step) for step in decided.degradation] == [("batch", 1)]
    assert decided.policies == ("canary@1", "ladder@1", "route@1")
    assert {(each.kind, each.policy) for each in decided.transitions} == {
        ("canary", "canary@1"),
        ("ladder", "ladder@1"),
        ("failover", "route@1"),
    }


def test_a_retired_ladder_is_at_zero_at_once() -> None:
    observation = seen(pool(queue_delay_s=3.0), models=model())
    degraded = decide(observation, [policy("Degradation", LADDER)], Memory())
    assert degraded.memory.ladders["chat"]["batch"].level == 1
    assert decide(observation, [], degraded.memory).memory == Memory()


@pytest.mark.parametrize(("most", "level"), [(4, 1), (9, 0)])
def test_a_step_may_wait_until_no_pool_can_grow(most: int, level: int) -> None:
    step = {**SHED, "enter": "at_most && queue_delay_s > 2.0"}
    ladder = policy("Degradation", {**LADDER, "steps": [step]}, "ladder")
    grow = policy("Scaling", {"pool": POOL, "max": most}, "grow")
    observation = seen(pool(queue_delay_s=3.0), models=model(), overrides=(set_to(5),))
    memory = decide(observation, [ladder, grow], Memory()).memory
    assert [each.level for each in memory.ladders.get("chat", {}).values()] == [1] * level


def test_old_signals_of_a_models_pools_are_unknown_to_its_ladder() -> None:
    old: dict[str, Any] = {"queue_delay_s": 3.0, "traffic_age_ms": 120_001}
    decision = decide(seen(pool(**old), models=model()), [policy("Degradation", LADDER)], Memory())
    assert decision.models["chat"].degradation == ()
    assert "unknown without queue_delay_s" in decision.models["chat"].transitions[0].reason


def test_the_load_of_another_models_pool_degrades_nothing() -> None:
    facts = {"chat": ModelFacts("chat", (POOL, "small"))}
    small = structs.replace(pool(queue_delay_s=9.0), pool="small", model="chat-small")
    decision = decide(seen(pool(), small, models=facts), [policy("Degradation", LADDER)], Memory())
    assert decision.models["chat"].degradation == ()
    assert decision.models["chat"].transitions == ()


def test_the_order_of_policies_does_not_matter() -> None:
    policies = [scaling(), policy("Degradation", LADDER, "b"), policy("Routing", FAILOVER, "a")]
    observation = seen(pool(queue_delay_s=3.0, reachable=False), models=model())
    first = decide(observation, policies, Memory())
    assert decide(observation, policies[::-1], Memory()) == first


def test_the_api_tier_is_scaled_too() -> None:
    api = PoolFacts(
        "gateway:api",
        cluster="eu",
        arrived_rps=900.0,
        wanted=2,
        ready=2,
        in_flight=3.0,
        cluster_age_ms=9,
        traffic_age_ms=9,
    )
    spec = policy("Scaling", {"gateway": "api", "max": 9, "reactive": {"replica_rps": 200}})
    decided = decide(seen(api), [spec], Memory()).targets["gateway:api"]
    assert (decided.action, decided.seen) == ("up", 2)


def test_a_person_s_conclusion_of_a_canary_begins_nothing_anew_and_waits_for_the_end_of_a_pause() -> None:
    before = policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "new"}, "canary")
    after = policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "new", "conclude": "roll_back"}, "canary")
    memory = decide(seen(pool(), NEW), [before], Memory()).memory
    paused = decide(seen(pool(), NEW, pauses=(Pause(UNTIL_MS),)), [after], memory)
    assert paused.models["chat"].canary == {POOL: 95, "new": 5}
    ended = decide(seen(pool(), NEW), [after], paused.memory)
    assert ended.models["chat"].canary == {POOL: 100, "new": 0}
    assert decide(seen(pool(), NEW), [before], ended.memory).models["chat"].canary == {POOL: 100, "new": 0}


def test_time_in_which_a_canary_was_paused_is_none_of_its_limit() -> None:
    spec = {"model": "chat", "baseline": POOL, "candidate": "new", "time_limit_s": 3_600}
    its = [policy("Canary", spec, "canary")]
    hour_ms = 3_600_000
    memory = decide(seen(pool(), NEW), its, Memory()).memory
    for at_ms in (NOW_MS + hour_ms // 2, NOW_MS + 2 * hour_ms):
        paused = seen(pool(), NEW, now_ms=at_ms, pauses=(Pause(NOW_MS + 3 * hour_ms),))
        memory = decide(paused, its, memory).memory

    def share(at_ms: int) -> dict[str, int]:
        return decide(seen(pool(), NEW, now_ms=at_ms), its, memory).models["chat"].canary

    assert share(NOW_MS + 3 * hour_ms) == {POOL: 95, "new": 5}
    memory = decide(seen(pool(), NEW, now_ms=NOW_MS + 3 * hour_ms), its, memory).memory
    assert share(NOW_MS + 3 * hour_ms + hour_ms // 2 - 1) == {POOL: 95, "new": 5}
    assert share(NOW_MS + 3 * hour_ms + hour_ms // 2) == {POOL: 100, "new": 0}
