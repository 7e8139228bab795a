"""One history: a controller that does not know everything, a twin that does, and what the first did wrong.

Both see the same cluster, which obeys the first. The twin has a memory of its own. What a ladder, a failover or a canary did is judged from
the first one's memory: would it have moved so, had it known?
"""

import math
import random
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision, Transition
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation, Override, PoolFacts
from controlplane.policy.core.spec import InForce
from tests.bench.unknown.truth import SLOTS, TICK_S, TICKS, Truth
from tests.support.policy.cases import NOW_MS, POOL, policy, scaling

KINDS = ("wrong_scale_downs", "below_min", "wrong_moves", "unsaid")
MAX_REPLICAS = 12
SAID_WITHIN_TICKS = 6
"""Two minutes: what is unknown for longer is said."""
BY_UNKNOWN = ("not known", "unknown", "missing", "last seen", "never seen", "was read once", "cannot be read")
"""How the reason of a hold says that something is unknown."""
BELOW_MIN = {"cluster", "pending", "quota", "gpus"}
"""Rails that may keep a count below `min`: where nothing is known of the cluster, or it has no place."""
REMEMBERED = 3
"""Ticks whose truth may still be trusted: as long as the longest limit of an age, a minute."""


def judged(seed: int, number: int) -> list[tuple[str, str]]:
    """What went wrong: the kind, and where as a sentence."""
    draw = random.Random(f"{seed}/{number}")
    return [(kind, f"history {number}, {text}") for kind, text in _run(draw)]


def _run(draw: random.Random) -> Iterator[tuple[str, str]]:
    truth, policies = Truth.drawn(draw, MAX_REPLICAS), _policies(draw)
    memory, twin_memory = Memory(), Memory()
    now_ms, unsaid = NOW_MS, dict[str, int]()
    truths, seen = list[Observation](), None
    overrides = _overrides(draw)
    for tick in range(TICKS):
        now_ms += TICK_S * 1_000
        if draw.random() < 0.01:  # the controller's clock is set
            now_ms += draw.randint(-120, 120) * 1_000
        if draw.random() < 0.02:
            policies = _edited(draw, policies)
        if (
            draw.random() < 0.02
        ):  # another leader, which has heard no gateway yet, and may not read what the one before remembered
            truth.gateways.forget()
            memory = structs.replace(memory, targets={}) if draw.random() < 0.5 else memory
        canary = memory.canaries.get("canary")
        known = truth.observed(tick, now_ms, canary.entered[0][0] if canary else None)
        known = structs.replace(known, overrides=overrides)
        seen = truth.blind(tick, known, seen or known)
        truths = [*truths[1 - REMEMBERED :], known]
        decision = decide(seen, policies, memory)
        twin = decide(known, policies[:1], twin_memory)
        at = f"tick {tick}: "
        yield from _counts(at, truth.needed(tick), seen, known, decision, twin, policies[0])
        # That a cluster does not answer is a fact of its own, which an owner's condition may ask for.
        clusters = known.clusters if seen.clusters["eu"].age_ms is None else seen.clusters
        asked = [structs.replace(ago, now_ms=now_ms, clusters=clusters) for ago in truths]
        for moved in _moves(decision):
            if not any(moved in _moves(decide(ago, policies, memory)) for ago in asked):
                yield "wrong_moves", f"{at}{moved}"
        for held in _unsaid(decision, seen.pools[POOL], unsaid):
            yield "unsaid", f"{at}{held}"
        memory, twin_memory = decision.memory, twin.memory
        target = decision.targets[POOL]
        told = target.wanted if target.wanted != target.seen and not seen.clusters["eu"].problem else None
        truth.follow(told, tick, now_ms)


def _counts(
    at: str, needed: int, seen: Observation, known: Observation, decision: Decision, twin: Decision, policy_: InForce
) -> Iterator[tuple[str, str]]:
    if any(override.until_ms > known.now_ms for override in known.overrides):
        return
    target, beside, pool = decision.targets[POOL], twin.targets[POOL], known.pools[POOL]
    wanted, there, ready = target.wanted, pool.wanted or 0, pool.ready or 0
    spec: Any = policy_.policy.spec
    if wanted is not None and wanted < spec.min and not {rail.name for rail in target.rails} & BELOW_MIN:
        yield "below_min", f"{at}{wanted} are wanted, and min is {spec.min}: {target.reason}"
    if wanted is None or wanted == target.seen or wanted >= there:
        return
    text = f"{at}{there} → {wanted}, of which {needed} are needed: {target.reason}"
    if wanted < min(spec.min, there):
        yield "below_min", text
    capped = spec.max < there or {rail.name for rail in target.rails} & {"gpu_hours", "usd"}
    # Of a rollout the cluster ends what serves, and keeps what cannot start.
    stuck = bool(pool.rollout) and ready - (there - wanted) < min(ready, needed)
    if wanted < min(there, math.ceil((seen.pools[POOL].in_flight or 0.0) / SLOTS)):
        yield "wrong_scale_downs", f"{text}; {seen.pools[POOL].in_flight:g} requests are in flight"
    if not capped and (stuck or (wanted < needed and (beside.wanted or 0) > wanted)):
        yield "wrong_scale_downs", text


def _moves(decision: Decision) -> set[tuple[str, str, str, str]]:
    return {
        _move(each) for model in decision.models.values() for each in model.transitions if each.before != each.after
    }


def _move(each: Transition) -> tuple[str, str, str, str]:
    return each.kind, each.name, each.before, each.after


def _unsaid(decision: Decision, pool: PoolFacts, since: dict[str, int]) -> Iterator[str]:
    """The holds because of something unknown, and the replicas that do not serve, that lasted too long while nothing was said of them.
    `since` counts their ticks.
    """
    target = decision.targets[POOL]
    kinds = {alarm.kind for alarm in decision.alarms}
    holds = dict[str, tuple[str, bool]]()
    if target.action == "hold" and any(word in target.reason for word in BY_UNKNOWN):
        holds["count"] = (target.reason, any(alarm.subject in (POOL, "eu") for alarm in decision.alarms))
    if pool.failing and "cluster" not in {rail.name for rail in target.rails}:
        holds["failing"] = (pool.failing_reason, "failing" in kinds)
    for model in decision.models.values():
        for each in model.transitions:
            if each.reason.startswith("stays") and (each.kind == "ladder" or "the state of" in each.reason):
                holds[f"{each.kind} {each.name}"] = (each.reason, bool(kinds & {"condition", "failover"}))
    for name in [*since]:
        if name not in holds:
            del since[name]
    for name, (reason, said) in holds.items():
        since[name] = 0 if said else since.get(name, 0) + 1
        if since[name] > SAID_WITHIN_TICKS:
            yield f"{name}: {reason}"


def _policies(draw: random.Random) -> list[InForce]:
    """A policy of each kind: the scaling one is the first."""
    when = draw.choice(("", "", "burn_rate_fast > 14.0", "!reachable || !cluster_up", "waiting > 200.0"))
    steps = [
        {"name": "cap", "enter": "burn_rate_fast > 14.0", "exit": "burn_rate_fast < 1.0", "max_output_tokens": 256},
        {"name": "shed", "enter": "saturation > 1.2 && waiting > 100.0", "exit": "saturation < 0.9", "shed": {}},
    ]
    failover = {"name": "away", "pools": [POOL], "to": {"far": 1}, "when": when, "min_stay_s": 60}
    return [
        _scaling(draw),
        policy("Degradation", {"model": "chat", "tiers": ["batch", "standard"], "steps": steps}, "ladder", 2),
        policy("Routing", {"model": "chat", "failover": [failover]}, "route", 3),
        policy("Canary", {"model": "chat", "baseline": POOL, "candidate": "far", "max_requests": 2_000}, "canary", 4),
    ]


def _scaling(draw: random.Random) -> InForce:
    reactive = {
        "kv_use": draw.choice((None, None, 0.8)),
        "queue_delay_s": draw.choice((None, 2.0)),
        "in_flight_per_replica": draw.choice((None, None, 12.0)),
    }
    budget = {
        "gpus": draw.choice((None, None, 20)),
        "gpu_hours_per_day": draw.choice((None, None, 1_000.0)),
    }
    spec = {
        "min": draw.choice((0, 1, 2)),
        "max": MAX_REPLICAS,
        "reactive": {name: value for name, value in reactive.items() if value is not None},
        "budget": {name: value for name, value in budget.items() if value is not None},
        "forecast": draw.choice(("auto", "off")),
        "scale_down": {
            "stabilisation_s": draw.choice((0, 60, 180)),
            "cooldown_s": draw.choice((0, 40)),
            "max_step": draw.choice((1, 3, MAX_REPLICAS)),
        },
        "pending_deadline_s": draw.choice((60, 300)),
        "hold_when": draw.choice(("", "", "", "kv_use > 0.95", "waiting > 300.0")),
        "cluster_adds_nodes": draw.random() < 0.5,
    }
    return scaling(**spec)


def _edited(draw: random.Random, policies: list[InForce]) -> list[InForce]:
    """An owner's edit of one of them."""
    if draw.random() < 0.5:
        return [_scaling(draw), *policies[1:]]
    return [policies[0], *(structs.replace(each, revision=each.revision + 1) for each in policies[1:])]


def _overrides(draw: random.Random) -> tuple[Override, ...]:
    if draw.random() > 0.1:
        return ()
    return (Override(NOW_MS + draw.randint(100, 600) * 1_000, POOL, draw.randint(0, MAX_REPLICAS), by="ada"),)
