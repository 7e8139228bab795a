"""The degradation ladder of a model: tiers in the order in which they are degraded, and steps in the order in which they are entered.

A tier is never on a lower step than a more important one: tiers go up from the least important, and come down from the most
important. A model's ladder moves by one step at a time, and then stays for the longest of the minimum stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from controlplane.policy.core.conditions import Truth, Value, holds
from controlplane.policy.core.decision import Alarm, TierStep, Transition
from controlplane.policy.core.memory import LadderMemory
from controlplane.policy.core.observation import ModelFacts, Override, TierFacts
from controlplane.policy.core.pool_values import OBJECTIVES, objective_values
from controlplane.policy.core.spec import DegradationSpec, LadderStep
from controlplane.policy.core.words import seconds

STAYS = "stays: "


class Climbed(NamedTuple):
    memory: dict[str, LadderMemory]
    degradation: tuple[TierStep, ...]
    transitions: tuple[Transition, ...]
    alarms: tuple[Alarm, ...] = ()


def climb(
    spec: DegradationSpec,
    policy: str,
    memory: Mapping[str, LadderMemory],
    facts: ModelFacts,
    values: Mapping[str, Value],
    now_ms: int,
    overrides: Sequence[Override] = (),
    *,
    paused: bool = False,
) -> Climbed:
    """Where each tier stands after this tick. `values` are the variables that are the same for all tiers."""
    top = len(spec.steps)
    before = {tier: min(memory[tier].level, top) if tier in memory else 0 for tier in spec.tiers}
    levels, reasons = dict(before), dict.fromkeys(spec.tiers, "")
    if not paused:
        _move(spec, levels, reasons, memory, facts, values, now_ms)
    for override in overrides:
        for tier in spec.tiers:
            if override.level is not None and override.tier in ("", tier):
                levels[tier] = min(override.level, top)
                left = seconds((override.until_ms - now_ms) / 1_000)
                reasons[tier] = f"set by {override.by or 'a person'} for another {left}"
    after = {
        tier: LadderMemory(level, memory[tier].since_ms if level == before[tier] and tier in memory else now_ms)
        for tier, level in levels.items()
        if level or tier in memory
    }
    transitions = tuple(
        Transition("ladder", tier, _name(spec, before[tier]), _name(spec, levels[tier]), reasons[tier])
        for tier in spec.tiers
        if levels[tier] != before[tier] or reasons[tier]
    )
    steps = tuple(tier_step(spec, tier, at, policy) for tier, at in after.items() if at.level)
    stuck = {tier: reason for tier, reason in reasons.items() if reason.startswith(STAYS)}
    if not stuck:
        return Climbed(after, steps, transitions)
    longest_s = max((now_ms - after[tier].since_ms) / 1_000 for tier in stuck)
    text = f"The degradation of {spec.model} cannot be taken back: {'; '.join(map(' '.join, stuck.items()))}."
    severity: Literal["page", "ticket"] = "page" if longest_s > spec.max_blind_stay_s else "ticket"
    alarm = Alarm(f"condition:{spec.model}", "condition", spec.model, text, severity)
    return Climbed(after, steps, transitions, (alarm,))


def _move(
    spec: DegradationSpec,
    levels: dict[str, int],
    reasons: dict[str, str],
    memory: Mapping[str, LadderMemory],
    facts: ModelFacts,
    values: Mapping[str, Value],
    now_ms: int,
) -> None:
    """Moves at most one tier by one step. Changes `levels` and `reasons`."""
    stay_s = max((spec.steps[level - 1].min_stay_s for level in levels.values() if level), default=0.0)
    last_ms = max((memory[tier].since_ms for tier in spec.tiers if tier in memory), default=None)
    settled = last_ms is None or now_ms - last_ms >= stay_s * 1_000
    moves = [*_down(spec, levels, reasons, facts, values), *_up(spec, levels, reasons, facts, values)]
    if settled and moves:
        tier, level, reason = moves[0]
        levels[tier], reasons[tier] = level, reason


def _down(
    spec: DegradationSpec,
    levels: Mapping[str, int],
    reasons: dict[str, str],
    facts: ModelFacts,
    values: Mapping[str, Value],
) -> Iterator[tuple[str, int, str]]:
    """The tiers that may leave their step, the most important first."""
    higher = 0
    for place, tier in reversed(list(enumerate(spec.tiers))):
        level = levels[tier]
        if level:
            condition = spec.steps[level - 1].exit
            truth = holds(condition, "ladder", tier_values(spec, place, facts, values))
            if truth.holds is None and values.get("arrived_rps") != 0:
                reasons[tier] = f"{STAYS}{condition!r} is unknown without {_lacking(truth, facts)}"
            elif truth.holds is not False and level > higher:
                yield tier, level - 1, f"{condition} holds" if truth.holds else "no request arrives"
        higher = max(higher, level)


def _up(
    spec: DegradationSpec,
    levels: Mapping[str, int],
    reasons: dict[str, str],
    facts: ModelFacts,
    values: Mapping[str, Value],
) -> Iterator[tuple[str, int, str]]:
    """The tiers that may enter the next step, the least important first."""
    lower = len(spec.steps)
    for place, tier in enumerate(spec.tiers):
        level = levels[tier]
        if level < lower:
            condition = spec.steps[level].enter
            truth = holds(condition, "ladder", tier_values(spec, place, facts, values))
            if truth.holds is None:
                unknown = f"does not enter: {condition!r} is unknown without {_lacking(truth, facts)}"
                reasons[tier] = reasons[tier] or unknown
            elif truth.holds:
                yield tier, level + 1, f"{condition} holds"
        lower = min(lower, level)


def _lacking(truth: Truth, facts: ModelFacts) -> str:
    unjudged = sorted({objective for tier in facts.tiers.values() for objective in tier.unjudged})
    why = (
        f" (not judged: {', '.join(unjudged)})"
        if unjudged and any(name.removeprefix("own_") in OBJECTIVES for name in truth.unknown)
        else ""
    )
    return f"{', '.join(truth.unknown)}{why}"


def tier_values(spec: DegradationSpec, place: int, facts: ModelFacts, values: Mapping[str, Value]) -> dict[str, Value]:
    """The variables for the tier at this place of the order. What it protects are the tiers after it, and those that are not in
    the order; the last one protects itself.
    """
    tier = spec.tiers[place]
    sacrificed = spec.tiers[: place + 1]
    protected = [of for name, of in sorted(facts.tiers.items()) if name not in sacrificed]
    own = facts.tiers.get(tier, TierFacts(tier))
    its_own = objective_values([own], spec.stale_after_s)
    result = {**values, **(objective_values(protected, spec.stale_after_s) if protected else its_own)}
    result |= {f"own_{name}": value for name, value in its_own.items()}
    result["own_arrived_rps"] = own.arrived_rps if values.get("arrived_rps") is not None else None
    return result


def tier_step(spec: DegradationSpec, tier: str, at: LadderMemory, policy: str) -> TierStep:
    """What is done on a step: all that it and the steps below it say."""
    done: Sequence[LadderStep] = spec.steps[: at.level]
    caps = [step.max_output_tokens for step in done if step.max_output_tokens is not None]
    places = [(step.pool, step.variant) for step in done if step.pool or step.variant]
    pool, variant = places[-1] if places else (None, None)
    sheds = [step.shed for step in done if step.shed is not None]
    return TierStep(
        tier=tier,
        step=at.level,
        name=done[-1].name,
        policy=policy,
        since_ms=at.since_ms,
        pool=pool,
        variant=variant,
        max_output_tokens=min(caps) if caps else None,
        partial=any(step.partial for step in done),
        cached_only=any(step.cached_only for step in done),
        shed_retry_after_s=sheds[-1].retry_after_s if sheds else None,
    )


def _name(spec: DegradationSpec, level: int) -> str:
    return f"{level} {spec.steps[level - 1].name}" if level else "0"
