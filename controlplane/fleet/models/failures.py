"""What owners set of how the gateway deals with a model's replicas that fail. docs/routing.md has the reason for each default."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from inference.contract.failure_rules import EJECTION, RETRIES
from inference.contract.snapshot import Model

_HEDGES = Model("", ())


def _count(default: int, text: str, name: str, least: int = 0) -> "models.PositiveIntegerField[int, int]":
    return models.PositiveIntegerField(name, default=default, validators=[MinValueValidator(least)], help_text=text)


def _percent(default: int, text: str, name: str) -> "models.PositiveSmallIntegerField[int, int]":
    return models.PositiveSmallIntegerField(name, default=default, validators=[MaxValueValidator(100)], help_text=text)


class FailureRules(models.Model):
    """Retries, hedges, ejection and panic of a model."""

    attempts = _count(RETRIES.attempts, "Of one request in one pool, with hedges; 1 tries none again.", "attempts", 1)
    retry_percent = _percent(
        RETRIES.percent, "Of a pool's requests in flight that may be repeats without a token.", "repeats, %"
    )
    retry_least = _count(RETRIES.least, "Of these are always allowed.", "repeats at least")
    hedge_ms = _count(
        _HEDGES.hedge_ms,
        "A short deterministic request without a token after so long is sent to a second replica too, and the "
        "slower answer is cancelled; 0 does not.",
        "hedge after, ms",
    )
    hedge_prompt_tokens = _count(
        _HEDGES.hedge_prompt_tokens, "Of longer prompts none is hedged.", "hedged prompt tokens"
    )
    hedge_output_tokens = _count(
        _HEDGES.hedge_output_tokens, "Nor a request that may have a longer answer.", "hedged output tokens"
    )
    down_probes = _count(
        EJECTION.probes, "Failed probes or connections in a row that take a replica out.", "probes until down", 1
    )
    eject_failures = _count(
        EJECTION.failures, "Failed calls in a row that eject a replica; 0 ejects none for that.", "failures in a row"
    )
    eject_percent = _percent(
        EJECTION.failure_percent, "Of a replica's last calls that fail, which eject it; 0 ejects none.", "failures, %"
    )
    eject_min_calls = _count(
        EJECTION.min_calls, "In the last seconds, for that share to count.", "calls for that share", 1
    )
    eject_base_s = _count(EJECTION.base_s, "Times the number of ejections, at most 300 s.", "ejection, s", 1)
    eject_most_percent = _percent(
        EJECTION.most_percent, "Of a pool's replicas that are ejected at a time, but always one.", "ejected at most, %"
    )
    panic_percent = _percent(
        EJECTION.panic_percent,
        "While fewer of a pool's replicas are left, no ejection counts; with 0 they always do.",
        "panic below, %",
    )

    class Meta:
        abstract = True
