"""How policies stand, as rows of a page: counts, ladders, canaries and failovers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.badge import Badge
from controlplane.policy.core.decision import Decision, TargetDecision
from controlplane.policy.core.memory import CanaryMemory
from controlplane.policy.core.observation import CLUSTER_STALE_AFTER_S, Gpus, Observation, PoolFacts
from controlplane.policy.core.record import Record
from controlplane.policy.core.spec import Canary, CanarySpec, Degradation, Policy

ACTIONS = {
    "none": Badge("●", "good", "as wanted"),
    "up": Badge("▲", "note-up", "more replicas"),
    "down": Badge("▼", "note-down", "fewer replicas"),
    "hold": Badge("◼", "warn", "held"),
    "raise_floor": Badge("▲", "note-up", "HPA's floor raised"),
}
NOT_READY = Badge("◐", "warn", "not all ready")
UNKNOWN = Badge("○", "warn", "unknown")
DISABLED = Badge("○", "muted", "disabled")
OUTCOMES = {
    "running": Badge("◐", "muted", "runs"),
    "promoted": Badge("●", "good", "promoted"),
    "rolled_back": Badge("✕", "bad", "rolled back"),
}
TRAFFIC_OLD_MS = 10_000
"""Older than this, what arrives is shown with its age."""
WAITS = Badge("◼", "warn", "waits for a person")


def badge_of(target: TargetDecision, facts: PoolFacts | None = None, *, is_stale: bool = False) -> Badge:
    """What was decided long ago is not known to hold."""
    if facts is not None and (facts.disabled or facts.cluster_disabled):
        return DISABLED
    if target.wanted is None or target.seen is None:
        return UNKNOWN
    badge = ACTIONS[target.action]
    if target.action == "none" and facts is not None and facts.ready is not None and facts.ready < target.wanted:
        badge = NOT_READY
    return Badge("○", "muted", f"was {badge.words}") if is_stale else badge


def target_rows(record: Record, at_ms: int | None = None, *, is_stale: bool = False) -> list[dict[str, Any]]:
    """What each pool has and wants, and why. Those that are not as wanted come first. `at_ms`: when the decision was last found to hold."""
    later_ms = 0 if at_ms is None else max(0, at_ms - record.decided_at_ms)
    rows = [target_row(record, name, later_ms, is_stale=is_stale) for name in record.decision.targets]
    return sorted(rows, key=lambda row: (row["look"].words in ("as wanted", "disabled"), row["target"].target))


def target_row(record: Record, name: str, later_ms: int = 0, *, is_stale: bool = False) -> dict[str, Any]:
    """What one target has and wants, so long after the record was written. `rails` are those that changed the count."""
    target, facts = record.decision.targets[name], record.observation.pools.get(name)
    age_ms = (facts and facts.traffic_age_ms) or 0
    return {
        "target": target,
        "look": badge_of(target, facts, is_stale=is_stale),
        "facts": facts,
        "steady_rps": steady_rps(record, name),
        "traffic_old_s": (age_ms + later_ms) / 1000 if age_ms > TRAFFIC_OLD_MS else None,
        "has": has(facts, later_ms),
        "rails": [rail for rail in target.rails if rail.before != rail.after],
    }


def steady_rps(record: Record, target: str) -> float | None:
    """The requests/s that arrive, as they were known before the decision: a tick alone sees few. None where nothing is known."""
    memory = record.memory.targets.get(target)
    if memory is not None and memory.load is not None:
        return memory.load.steady_rps
    facts = record.observation.pools.get(target)
    return None if facts is None else facts.arrived_rps


def has(facts: PoolFacts | None, later_ms: int) -> str:
    """Such as `2 ready, 1 starting`, with their age where the cluster does not answer; empty where it did not say."""
    if facts is None or facts.ready is None:
        return ""
    others = ((facts.starting, "starting"), (facts.pending, "without a node"), (facts.draining, "draining"))
    counts = ", ".join([f"{facts.ready} ready", *(f"{count} {word}" for count, word in others if count)])
    age_ms = facts.cluster_age_ms or 0
    return (
        f"{counts} {PAGE.duration((age_ms + later_ms) / 1000)} ago" if age_ms > CLUSTER_STALE_AFTER_S * 1000 else counts
    )


def ladder_rows(record: Record, policies: Iterable[Policy], *, is_stale: bool = False) -> list[dict[str, Any]]:
    """Each tier of each ladder, from the tier that is degraded first: on which step it stands."""
    rows = []
    for policy in policies:
        if not isinstance(policy, Degradation):
            continue
        spec = policy.spec
        decided = record.decision.models.get(spec.model)
        entered = {step.tier: step for step in decided.degradation} if decided else {}
        for tier in spec.tiers:
            step = entered.get(tier)
            level = step.step if step else 0
            facts = record.observation.models.get(spec.model)
            rows.append(
                {
                    "model": spec.model,
                    "policy": policy.metadata.name,
                    "tier": tier,
                    "known": decided is not None and not is_stale,
                    "level": level,
                    "of": len(spec.steps),
                    "rungs": [{"name": each.name, "entered": number < level} for number, each in enumerate(spec.steps)],
                    "step": step,
                    "does": does(step) if step else "",
                    "since_s": (record.decided_at_ms - step.since_ms) / 1000 if step else None,
                    "cost": spec.steps[level - 1].cost if 0 < level <= len(spec.steps) else None,
                    "facts": facts.tiers.get(tier) if facts else None,
                }
            )
    return rows


def does(step: Any) -> str:
    """What a step does to requests, in words."""
    parts = []
    if step.pool:
        parts.append(f"sent to {step.pool}")
    if step.variant:
        parts.append(f"sent to variant {step.variant}")
    if step.max_output_tokens:
        parts.append(f"at most {PAGE.count(step.max_output_tokens)} output tokens")
    if step.partial:
        parts.append("cut answers can be continued")
    if step.cached_only:
        parts.append("answered from the cache only")
    if step.shed_retry_after_s:
        parts.append(f"refused, to come back after {step.shed_retry_after_s} s")
    return ", ".join(parts)


def canary_rows(record: Record, policies: Iterable[Policy], *, is_stale: bool = False) -> list[dict[str, Any]]:
    rows = []
    for policy in policies:
        if isinstance(policy, Canary) and (standing := record.decision.memory.canaries.get(policy.metadata.name)):
            rows.append(_canary(policy.metadata.name, policy.spec, standing, record.observation, is_stale))
    return rows


def _canary(name: str, spec: CanarySpec, standing: CanaryMemory, seen: Observation, is_stale: bool) -> dict[str, Any]:
    counts = seen.canaries.get(name)
    served = sum(stratum.candidate.requests for stratum in counts.strata) if counts else None
    return {
        "name": name,
        "spec": spec,
        "memory": standing,
        "look": _canary_badge(standing.outcome, is_stale),
        "percent": {"promoted": 100, "rolled_back": 0}.get(standing.outcome, standing.percent),
        "counts": counts,
        "served": served,
        "share": None if served is None else min(1.0, served / spec.max_requests),
        "quantile": f"p{spec.latency_quantile * 100:g}",
        "look_at": standing.looks[-1] if standing.looks else None,
    }


def _canary_badge(outcome: str, is_stale: bool) -> Badge:
    """One that has ended stays so, however long ago that was decided."""
    if is_stale and outcome == "running":
        return Badge("○", "muted", "was running")
    return OUTCOMES.get(outcome, WAITS)


def failover_rows(decision: Decision) -> list[dict[str, Any]]:
    """Traffic that is moved away from pools now."""
    return [
        {"model": model, "pool": pool, "to": ", ".join(f"{name} ({weight})" for name, weight in to.items())}
        for model, decided in decision.models.items()
        for pool, to in decided.moved.items()
    ]


def headline(record: Record, ladders: Sequence[Mapping[str, Any]], stale_s: float | None) -> dict[str, Any]:
    """What matters most: a controller that does not decide, then alarms, unknown counts, and degraded tiers."""
    targets, pools = record.decision.targets.values(), record.observation.pools

    def those(badge: Badge) -> list[str]:
        return [target.target for target in targets if badge_of(target, pools.get(target.target)) == badge]

    wrong = {
        "alarms": record.decision.alarms,
        "unknown": those(UNKNOWN),
        "holding": those(ACTIONS["hold"]),
        "not_ready": those(NOT_READY),
        "degraded": [row for row in ladders if row["level"]],
    }
    return wrong | {
        "wrong": any(wrong.values()),
        "stale_s": stale_s,
        "moving": [target for target in targets if target.action in ("up", "down")],
        "policies": len(record.policies),
    }


def ages(seen: Observation) -> list[dict[str, Any]]:
    """Every source of an observation. Those that are not known come first, then the oldest."""
    inputs = [
        *(_input(f"gateway {each.url}", "arrivals, queues, requests in flight", _s(each.age_ms), each.problem) for each in seen.gateways),
        *(_input(f"cluster {name}", _gpus(each.gpus), _s(each.age_ms), each.problem) for name, each in seen.clusters.items()),
        *(_input(f"canary {name}", "requests of both pools in the ledger", _s(each.age_ms)) for name, each in seen.canaries.items()),
        *(_input(f"use of {name}", "GPU-hours and cost of today", _s(each.age_ms)) for name, each in seen.spent.items()),
        *(
            _input(
                f"plan of {name}",
                f"by {each.forecaster or 'no forecaster'}, skill {PAGE.share(each.skill)}",
                (seen.now_ms - each.made_at_ms) / 1000,
            )
            for name, each in seen.plans.items()
        ),
    ]  # fmt: skip
    for model in seen.models.values():
        inputs += [
            _input(
                f"objective {tier.objective or '–'} of {model.model}, {name}",
                "burn rates and error budget",
                _s(tier.age_ms),
            )
            for name, tier in model.tiers.items()
        ]
    for name, facts in seen.pools.items():
        parts = (
            ("traffic", facts.traffic_age_ms), ("servers", facts.servers_age_ms),
            ("replicas", facts.cluster_age_ms), ("capacity", facts.capacity_age_ms),
        )  # fmt: skip
        inputs += [
            _input(f"{what} of {name}", "", _s(age_ms), facts.problem if what == "replicas" else "")
            for what, age_ms in parts
        ]
    return sorted(inputs, key=lambda each: (each["age_s"] is not None and not each["problem"], -(each["age_s"] or 0.0)))


def _input(source: str, says: str, age_s: float | None, problem: str = "") -> dict[str, Any]:
    """A source of what was seen, with its age. `problem` says why it is not known."""
    return {"source": source, "says": says, "age_s": age_s, "problem": problem}


def _s(age_ms: int | None) -> float | None:
    return None if age_ms is None else age_ms / 1000


def _gpus(gpus: Mapping[str, Gpus]) -> str:
    return (
        ", ".join(f"{each.free} of {each.allocatable} {name} free" for name, each in gpus.items())
        or "counts of replicas"
    )
