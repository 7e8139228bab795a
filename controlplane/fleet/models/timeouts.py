"""How long the stages of a request may take, by its model and its tier."""

from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models.serving import LLMModel
from controlplane.fleet.models.traffic import Tier

_TWICE = "There are timeouts for this model and tier already: change those."


def _stage(text: str) -> "models.PositiveIntegerField[int, int]":
    return models.PositiveIntegerField(default=0, help_text=f"{text}, ms; 0 leaves it as it is for all.")


class TimeoutRule(models.Model):
    """Stage timeouts of a model, of a tier, or of a tier for a model, instead of those of all."""

    model = models.ForeignKey(
        LLMModel,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="timeout_rules",
        help_text="Empty: every model.",
    )
    tier = models.ForeignKey(
        Tier,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="timeout_rules",
        help_text="Empty: every tier. What is for a tier is stronger than what is for a model, and what is for both the strongest.",
    )
    cache_ms = _stage("The lookup")
    tokenizer_ms = _stage("Counting the prompt's tokens")
    queue_ms = _stage("Waiting for a place in flight")
    connect_ms = _stage("Connecting to a model server, with TLS")
    first_token_ms = _stage("From the model's call to its first token")
    next_token_ms = _stage("From each token of the model to the next")
    model_ms = _stage("The model's whole answer")
    egress_ms = _stage("A client that does not read")

    class Meta:
        verbose_name = "stage timeouts of a model or tier"
        verbose_name_plural = "stage timeouts by model and tier"
        ordering = ["model__name", "tier__name"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "tier"], name="timeout_rule_of_both", violation_error_message=_TWICE
            ),
            models.UniqueConstraint(
                fields=["model"],
                condition=models.Q(tier__isnull=True),
                name="timeout_rule_of_model",
                violation_error_message=_TWICE,
            ),
            models.UniqueConstraint(
                fields=["tier"],
                condition=models.Q(model__isnull=True),
                name="timeout_rule_of_tier",
                violation_error_message=_TWICE,
            ),
            models.CheckConstraint(
                condition=models.Q(model__isnull=False) | models.Q(tier__isnull=False),
                name="timeout_rule_is_of_model_or_tier",
                violation_error_message="Choose a model or a tier; the stage timeouts of all have a page of their own.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model or 'every model'}, {self.tier or 'every tier'}"

    def owned(self) -> Owned:
        return self.model.owned() if self.model else Owned()
