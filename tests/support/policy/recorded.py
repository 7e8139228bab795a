"""The golden record: decisions with all that they were made from, a line each after the policies. `python -m tests.support.policy.recorded`
writes it; a change that makes it replay otherwise gets the next `VERSION` of `controlplane.policy.core.decide`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from controlplane.core.documents.writing import write_yaml
from controlplane.policy.core.decide import decide
from controlplane.policy.core.document import digest_of
from controlplane.policy.core.memory import Memory, TargetMemory
from controlplane.policy.core.observation import (
    Arm,
    CanaryCounts,
    ClusterFacts,
    Gpus,
    ModelFacts,
    Observation,
    Override,
    Pause,
    PoolPlan,
    Spent,
    Stratum,
    TierFacts,
)
from controlplane.policy.core.record import Record, encode, record_of
from controlplane.policy.core.spec import InForce, Policy
from deploy.local.process import ROOT
from tests.support.policy.cases import NOW_MS, POOL, policy, pool, scaling

GOLDEN = ROOT / "tests/controlplane/policy/core/decisions.jsonl"
LADDER = [
    {
        "name": "shorter",
        "enter": "queue_delay_s > 1.0 || burn_rate_fast > 14.4",
        "exit": "queue_delay_s < 0.5 && burn_rate_fast < 1.0",
        "max_output_tokens": 256,
        "min_stay_s": 5,
    },
    {"name": "shed", "enter": "at_most && waiting > 50.0", "exit": "waiting < 5.0", "shed": {}, "min_stay_s": 5},
]
POLICIES = [
    scaling(
        max=12,
        warm_floor=2,
        reactive={"kv_use": 0.9, "queue_delay_s": 2},
        budget={"gpus": 20, "usd_per_day": 500},
        hold_when="kv_use > 0.99",
    ),
    policy("Degradation", {"model": "chat", "tiers": ["batch", "standard"], "steps": LADDER}, "ladder", 2),
    policy("Routing", {"model": "chat", "failover": [{"name": "down", "pools": [POOL], "to": {"far": 1}}]}, "route", 3),
    policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "new"}, "canary", 4),
]
PLAN = PoolPlan(
    POOL, NOW_MS, NOW_MS, 300_000, 600_000, (3, 4, 6), (4, 6, 6), (4, 5, 6), "seasonal", 0.3, 0.9, "600 s ahead"
)
TICKS: list[tuple[int, dict[str, Any]]] = [
    (0, {}),
    (5, {"arrived_rps": 90.0, "waiting": 40.0, "queue_delay_s": 3.0, "kv_use": 0.95}),
    (5, {"arrived_rps": 90.0, "waiting": 80.0, "wanted": 9, "pending": 2, "pending_since_ms": NOW_MS}),
    (900, {"arrived_rps": 70.0, "wanted": 9, "pending": 2, "pending_since_ms": NOW_MS, "kv_use": 0.995}),
    (30, {"arrived_rps": 5.0, "traffic_age_ms": 45_000}),
    (30, {"arrived_rps": 5.0, "reachable": False, "servers_age_ms": None}),
    (30, {"arrived_rps": 5.0, "cluster_age_ms": 90_000, "owner_of_count": "hand"}),
    (30, {"arrived_rps": 5.0, "owner_of_count": "hpa:chat", "hpa_min": 1, "hpa_max": 5}),
    (400, {"arrived_rps": 0.0, "in_flight": 3.0, "kv_use": 0.1}),
    (400, {"arrived_rps": 0.0, "in_flight": 0.0, "kv_use": 0.1}),
]
BUSY, IDLE = {"arrived_rps": 90.0}, {"arrived_rps": 0.0, "in_flight": 0.0}
OF_RAILS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "cluster": ({}, {"cluster_age_ms": None}, {}),
    "metrics": ({}, {"traffic_age_ms": None}, {}),
    "hold_when": ({"hold_when": "ready > 3.0"}, BUSY, {}),
    "capacity": ({}, {"capacity_rps": None}, {}),
    "gpu_hours": ({"budget": {"gpu_hours_per_day": 10}}, BUSY, {"spent": {POOL: Spent(11.0, None, 0)}}),
    "usd": ({"budget": {"usd_per_day": 10}}, BUSY, {}),
    "step_up": ({"scale_up": {"max_step": 1}}, BUSY, {}),
    "step_down": ({}, IDLE, {}),
    "cooldown": ({"scale_down": {"cooldown_s": 600}}, IDLE, {}),
    "rate": ({"rate": {"max_up": 1}}, BUSY, {}),
    "max": ({"max": 5}, BUSY, {}),
    "min": ({"min": 5}, {"traffic_age_ms": None}, {}),
    "gpus": ({"budget": {"gpus": 10}}, BUSY, {}),
    "in_flight": ({"scale_down": {"max_step": 4, "cooldown_s": 0}}, IDLE | {"in_flight": 20.0}, {}),
    "quota": ({}, BUSY, {"clusters": {"eu": ClusterFacts("eu", 500, gpus={"h100": Gpus(10, 8)})}}),
    "failing": ({}, {"ready": 3, "failing": 1, "failing_reason": "“server” ended with exit code 137 (OOMKilled)"}, {}),
    "outage": ({"scale_down": {"cooldown_s": 0}}, IDLE | {"reachable": False}, {}),
    "rollout": ({"scale_down": {"cooldown_s": 0}}, IDLE | {"rollout": "Deployment “chat” is replacing 1 replica."}, {}),
    "pending": ({"pending_deadline_s": 60}, BUSY | {"pending": 1, "pending_since_ms": NOW_MS - 61_000}, {}),
    "other_owner": ({}, BUSY | {"owner_of_count": "hpa:chat"}, {}),
    "pause": ({}, BUSY, {"pauses": (Pause(NOW_MS + 60_000, "pool", POOL, "ada"),)}),
}
"""By rail: the policy, the facts and the rest of what is seen, with which the rail has its say."""
REMEMBERED = Memory(
    {POOL: TargetMemory(seen=4, owned=True, steps=((NOW_MS - 30_000, 1),), recommended=((NOW_MS - 1, 0),))}
)


def counts(since_ms: int, now_ms: int, number: int) -> CanaryCounts:
    """The candidate is half as slow again."""
    requests = 2_000 * number
    candidate = Arm(requests, 5, requests - 5, requests // 10, requests // 18)
    baseline = Arm(19 * requests, 90, 19 * requests - 90, 19 * requests // 20, 19 * requests // 60)
    return CanaryCounts(since_ms, now_ms, (Stratum(candidate, baseline),), age_ms=2_000)


def observations() -> Iterator[Observation]:
    now_ms, begun_ms = NOW_MS, NOW_MS
    for number, (after_s, facts) in enumerate(TICKS):
        now_ms += after_s * 1_000
        tiers = {
            "batch": TierFacts("batch", burn_rate_fast=3.0 * number, age_ms=4_000),
            "premium": TierFacts("premium", burn_rate_fast=2.0, budget_left=0.4, age_ms=None if number == 2 else 4_000),
        }
        yield Observation(
            now_ms,
            {POOL: pool(**{"kv_use": 0.5, **facts}), "far": structs.replace(pool(), pool="far", region="us")}
            | {"new": structs.replace(pool(), pool="new")},
            {"chat": ModelFacts("chat", (POOL, "far"), tiers)},
            clusters={"eu": ClusterFacts("eu", 500, gpus={"h100": Gpus(24, 12)})},
            spent={POOL: Spent(100.0 + number, 499.0 + number / 2, 60_000)},
            plans={POOL: PLAN},
            canaries={"canary": counts(begun_ms, now_ms, number)} if number else {},
            pauses=(Pause(now_ms + 60_000, "pool", POOL, "ada"),) if number == 8 else (),
            overrides=(Override(now_ms + 60_000, POOL, 3, by="ada"),) if number == 9 else (),
        )


def of_rail(rail: str) -> Policy:
    spec, _, _ = OF_RAILS[rail]
    return scaling(**{"max": 12} | spec).policy


def of_rails() -> Iterator[tuple[str, Record]]:
    """A record for each rail."""
    for number, (rail, (_, facts, others)) in enumerate(OF_RAILS.items(), 1 + len(POLICIES)):
        document = of_rail(rail)
        policy_ = InForce(number, 1, digest_of(document), document)
        cluster = {"eu": ClusterFacts("eu", 500, gpus={"h100": Gpus(64, 8)})}
        seen = {"clusters": cluster, "spent": {POOL: Spent(11.0, 11.0, 0)}} | others
        observation = Observation(NOW_MS, {POOL: pool(**facts)}, **seen)
        yield rail, record_of(observation, [policy_], REMEMBERED, decide(observation, [policy_], REMEMBERED))


def generate() -> bytes:
    """The policies by id of their revision, and the records."""
    plain = {each.id: msgspec.to_builtins(each.policy) for each in POLICIES}
    plain |= {record.policies[0].id: msgspec.to_builtins(of_rail(rail)) for rail, record in of_rails()}
    texts = {str(number): write_yaml({"apiVersion": "", "kind": "", **each}) for number, each in plain.items()}
    memory, lines = Memory(), [msgspec.json.encode(texts)]
    for observation in observations():
        decision = decide(observation, POLICIES, memory)
        lines.append(encode(record_of(observation, POLICIES, memory, decision)))
        memory = decision.memory
    lines += [encode(record) for _, record in of_rails()]
    return b"\n".join(lines) + b"\n"


if __name__ == "__main__":
    GOLDEN.write_bytes(generate())
    print(GOLDEN)
