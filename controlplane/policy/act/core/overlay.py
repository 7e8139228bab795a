"""The overlay of a decision: what gateways obey over what owners entered."""

from collections.abc import Iterable, Mapping

import msgspec

from controlplane.policy.core.decision import ModelDecision, TierStep
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route

MAX_WEIGHT = 10_000


def overlay(decisions: Mapping[str, ModelDecision], routes: Mapping[str, Mapping[str, int]]) -> Overlay:
    """Without version, decision and expiry. `routes` are those that owners entered: weights by model and pool."""
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
