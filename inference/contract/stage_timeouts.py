"""How long the stages of a request may take, by its model and its tier."""

from collections.abc import Iterable

from inference.contract.snapshot_parts import StageTimeouts, TimeoutRule

Timeouts = dict[tuple[str, str], StageTimeouts]
"""By model and tier."""


def timeouts_of(
    given: StageTimeouts, rules: Iterable[TimeoutRule], models: Iterable[str], tiers: Iterable[str]
) -> Timeouts:
    """What holds for each model and tier that a rule is about; `given` holds for the others. A rule for the model is stronger than
    none, one for the tier is stronger than that, and one for both is the strongest.
    """
    rules = sorted(rules, key=lambda rule: 2 * bool(rule.tier) + bool(rule.model))
    tiers, out = list(tiers), Timeouts()
    for model in models:
        for tier in tiers:
            timeouts = given
            for rule in rules:
                if rule.model in ("", model) and rule.tier in ("", tier):
                    timeouts = _over(rule, timeouts)
            if timeouts is not given:
                out[model, tier] = timeouts
    return out


def _over(rule: TimeoutRule, below: StageTimeouts) -> StageTimeouts:
    return StageTimeouts(
        cache_ms=rule.cache_ms or below.cache_ms,
        tokenizer_ms=rule.tokenizer_ms or below.tokenizer_ms,
        queue_ms=rule.queue_ms or below.queue_ms,
        connect_ms=rule.connect_ms or below.connect_ms,
        first_token_ms=rule.first_token_ms or below.first_token_ms,
        next_token_ms=rule.next_token_ms or below.next_token_ms,
        model_ms=rule.model_ms or below.model_ms,
        egress_ms=rule.egress_ms or below.egress_ms,
    )
