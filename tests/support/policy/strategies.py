"""Hypothesis: any observation of a pool, any scaling policy, any memory."""

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from controlplane.policy.core.memory import Memory, TargetMemory
from controlplane.policy.core.observation import (
    ClusterFacts,
    Gpus,
    ModelFacts,
    Observation,
    Override,
    Pause,
    PoolFacts,
    PoolPlan,
    Spent,
    TierFacts,
)
from controlplane.policy.core.spec import InForce
from tests.support.policy.cases import NOW_MS, POOL, policy, scaling

ages_ms = st.none() | st.integers(0, 200_000)
counts = st.none() | st.integers(0, 12)
rates = st.none() | st.floats(0, 500)
shares = st.none() | st.floats(0, 1)
times_ms = st.integers(NOW_MS - 2_000_000, NOW_MS + 2_000_000)


def _with_a_possible_autoscaler(facts: PoolFacts) -> PoolFacts:
    """Kubernetes takes none whose maxReplicas is below 1 or its minReplicas."""
    most = facts.hpa_max
    return facts if most is None else structs.replace(facts, hpa_max=max(most, facts.hpa_min or 1, 1))


pools = st.builds(
    PoolFacts,
    pool=st.just(POOL),
    model=st.just("chat"),
    cluster=st.just("eu"),
    gpu=st.just("h100"),
    gpus_per_replica=st.none() | st.integers(0, 4),
    arrived_rps=rates,
    waiting=rates,
    queue_delay_s=rates,
    in_flight=rates,
    kv_use=shares,
    wanted=counts,
    ready=counts,
    starting=counts,
    pending=counts,
    pending_since_ms=st.none() | times_ms,
    failing=counts,
    rollout=st.sampled_from(["", "", "Deployment “chat” is replacing 1 replicas of an older template."]),
    rollout_stuck=st.booleans(),
    capacity_rps=st.none() | st.floats(0.01, 100),
    slots=st.none() | st.integers(1, 64),
    owner_of_count=st.sampled_from(["weir", "weir", "weir", "hand", "hpa:chat"]),
    hpa_min=counts,
    hpa_max=counts,
    problem=st.sampled_from(["", "", "", "no Deployment"]),
    traffic_age_ms=ages_ms,
    servers_age_ms=ages_ms,
    cluster_age_ms=ages_ms,
    reachable=st.none() | st.booleans(),
).map(_with_a_possible_autoscaler)


@st.composite
def scalings(draw: st.DrawFn) -> InForce:
    most = draw(st.integers(1, 12))
    spec: dict[str, Any] = {
        "min": draw(st.integers(0, most)),
        "max": most,
        "warm_floor": draw(st.integers(0, most)),
        "scale_up": {"max_step": draw(st.none() | st.integers(1, 5))},
        "scale_down": {
            "stabilisation_s": draw(st.sampled_from([0, 60, 300])),
            "cooldown_s": draw(st.sampled_from([0, 60])),
            "max_step": draw(st.integers(1, 5)),
        },
        "rate": {"max_up": draw(st.none() | st.integers(1, 5)), "max_down": draw(st.none() | st.integers(1, 5))},
        "budget": {
            "gpus": draw(st.none() | st.integers(0, 30)),
            "gpu_hours_per_day": draw(st.none() | st.floats(1, 100)),
            "usd_per_day": draw(st.none() | st.floats(1, 100)),
        },
        "reactive": {
            "kv_use": draw(st.none() | st.floats(0.1, 1)),
            "queue_delay_s": draw(st.none() | st.floats(0.1, 9)),
        },
        "cluster_adds_nodes": draw(st.booleans()),
        "other_owner": draw(st.sampled_from(["stop", "adopt", "cooperate"])),
        "hold_when": draw(st.sampled_from(["", "kv_use > 0.9", "waiting > 100.0"])),
    }
    return scaling(**spec)


@st.composite
def plans(draw: st.DrawFn) -> PoolPlan:
    warm = tuple(draw(st.lists(st.integers(0, 20), min_size=1, max_size=12)))
    start_ms = NOW_MS - draw(st.integers(0, 600_000))
    skill = draw(st.none() | st.floats(-1, 1))
    return PoolPlan(POOL, start_ms, start_ms, 300_000, 900_000, warm, warm, warm, "seasonal", skill, 0.9, "as planned")


targets = st.builds(
    TargetMemory,
    seen=counts,
    owned=st.booleans(),
    steps=st.lists(st.tuples(st.integers(NOW_MS - 900_000, NOW_MS), st.integers(-5, 5)), max_size=4).map(
        lambda steps: tuple(sorted(steps))
    ),
    recommended=st.lists(st.tuples(st.integers(NOW_MS - 900_000, NOW_MS), st.integers(0, 20)), max_size=4).map(
        lambda past: tuple(sorted(past))
    ),
)
memories = st.builds(lambda target: Memory({POOL: target}), targets)
overrides = st.builds(lambda until_ms, count: Override(until_ms, POOL, count, by="ada"), times_ms, st.integers(0, 20))
pauses = st.builds(lambda until_ms: Pause(until_ms, "pool", POOL), times_ms)
clusters = st.builds(
    lambda age_ms, problem, allocatable, requested: ClusterFacts(
        "eu", age_ms, problem, {"h100": Gpus(allocatable, requested)}
    ),
    ages_ms,
    st.sampled_from(["", "", "", "connection refused"]),
    st.integers(0, 40),
    st.integers(0, 40),
)
tiers = st.dictionaries(
    st.sampled_from(["batch", "standard", "premium"]),
    st.builds(
        TierFacts, tier=st.just(""), burn_rate_fast=rates, budget_left=st.none() | st.floats(-2, 1), age_ms=ages_ms
    ),
).map(lambda facts: {name: structs.replace(each, tier=name) for name, each in facts.items()})
observations = st.builds(
    lambda pool, cluster, plan, spent, of_tiers, paused, overridden: Observation(
        NOW_MS,
        {POOL: pool},
        {"chat": ModelFacts("chat", (POOL,), of_tiers)},
        clusters={"eu": cluster},
        plans={POOL: plan} if plan else {},
        spent={POOL: spent} if spent else {},
        pauses=paused,
        overrides=overridden,
    ),
    pools,
    clusters,
    st.none() | plans(),
    st.none() | st.builds(Spent, st.floats(0, 200), st.none() | st.floats(0, 200), ages_ms),
    tiers,
    st.tuples() | st.tuples(pauses),
    st.tuples() | st.tuples(overrides),
)
OTHERS = [
    policy(
        "Degradation",
        {
            "model": "chat",
            "tiers": ["batch", "standard"],
            "steps": [
                {"name": "shed", "enter": "burn_rate_fast > 9.0 || waiting > 9.0", "exit": "waiting < 9.0", "shed": {}}
            ],
        },
        "ladder",
        2,
    ),
    policy("Routing", {"model": "chat", "failover": [{"name": "f", "pools": [POOL], "to": {"far": 1}}]}, "route", 3),
]
