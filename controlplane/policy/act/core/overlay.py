"""The overlay of a decision: what gateways obey over what owners entered."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import msgspec

from controlplane.policy.core.decision import ModelDecision, TierStep
from controlplane.policy.core.memory import Left, TargetMemory
from controlplane.policy.core.observation import Observation
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route

MAX_WEIGHT = 10_000


def overlay(
    decisions: Mapping[str, ModelDecision],
    routes: Mapping[str, Mapping[str, int]],
    awaited: Mapping[str, int] = MappingProxyType({}),
) -> Overlay:
    """Without version, decision and expiry. `routes` are those that owners entered: weights by model and pool; `awaited` is by pool."""
    return Overlay(
        routes={
            name: moved
            for name, decision in sorted(decisions.items())
            if decision.moved and (moved := _moved(routes.get(name, {}), decision.moved))
        },
        instead={
            pool: tuple(sorted(to, key=lambda name: (-to[name], name)))
            for _, decision in sorted(decisions.items())
            for pool, to in sorted(decision.moved.items())
        },
        degradation=tuple(_degradations(decisions.values())),
        canary={name: dict(decision.canary) for name, decision in sorted(decisions.items()) if decision.canary},
        awaited=dict(awaited),
    )


def awaited(observation: Observation, targets: Mapping[str, TargetMemory]) -> dict[str, int]:
    """By pool that has no ready replica, when the first that starts is expected: a cold start (P90) after it was asked for. Nothing is
    said of replicas that have no node or crash, nor once that time is over.
    """
    first = {}
    for name, memory in sorted(targets.items()):
        facts = observation.pools.get(name)
        if facts is None or not facts.model or facts.ready != 0 or facts.pending or facts.failing or not facts.starting:
            continue
        cold_start_ms = round((facts.cold_start_s or 0.0) * 1_000)
        expected = [at_ms + cold_start_ms for at_ms, added in memory.steps if added > 0]
        if later := [at_ms for at_ms in expected if at_ms > observation.now_ms]:
            first[name] = min(later)
    return first


def with_kept(
    new: Overlay, before: Overlay, left: Collection[Left], routes: Mapping[str, Mapping[str, int]]
) -> Overlay:
    """`new`, with what `before` does for policies that are left. What another policy does now for the same model goes first."""
    of = {kind: [each for each in left if each.kind == kind] for kind in ("Degradation", "Routing", "Canary")}
    names = {each.name for each in of["Degradation"]}
    steps = [each for each in before.degradation if each.rule.partition("@")[0] in names]
    degraded = {each.model for each in new.degradation}

    def is_left(kind: str, model: str) -> bool:
        return any(each.is_about(model) for each in of[kind])

    moved = {model: each for model, each in before.routes.items() if is_left("Routing", model)}
    pools = {pool for model, its in routes.items() if is_left("Routing", model) for pool in its}
    return msgspec.structs.replace(
        new,
        routes=moved | new.routes,
        instead={pool: to for pool, to in before.instead.items() if pool in pools} | new.instead,
        degradation=(*new.degradation, *(each for each in steps if each.model not in degraded)),
        canary={model: each for model, each in before.canary.items() if is_left("Canary", model)} | new.canary,
    )


def is_empty(value: Overlay) -> bool:
    return msgspec.structs.replace(value, version=0, decision="", expires_ms=0) == NO_OVERLAY


def _moved(own: Mapping[str, int], moved: Mapping[str, Mapping[str, int]]) -> tuple[Route, ...]:
    """The weights with those of each failed pool given to the pools that get its traffic, in proportion."""
    weights: dict[str, float] = {}
    for pool, weight in own.items():
        to = {name: share for name, share in moved.get(pool, {pool: 1}).items() if share > 0}
        total = sum(to.values())
        for name, share in to.items():
            weights[name] = weights.get(name, 0.0) + weight * share / total
    highest = max(weights.values(), default=0.0)
    if not highest:
        return ()
    scale = min(100.0, MAX_WEIGHT / highest)
    return tuple(Route(name, max(1, round(weight * scale))) for name, weight in sorted(weights.items()) if weight)


def _degradations(decisions: Iterable[ModelDecision]) -> Iterable[Degradation]:
    for decision in sorted(decisions, key=lambda each: each.model):
        for step in decision.degradation:
            yield _degradation(decision.model, step)


def _degradation(model: str, step: TierStep) -> Degradation:
    return Degradation(
        model=model,
        tier=step.tier,
        step=step.step,
        name=step.name,
        rule=step.policy,
        pool=step.pool or "",
        variant=step.variant or "",
        max_output_tokens=step.max_output_tokens or 0,
        partial=step.partial,
        cached_only=step.cached_only,
        shed=step.shed_retry_after_s is not None,
        retry_after_s=float(step.shed_retry_after_s or 10),
    )
