"""What requests cost, as owners enter it."""

from django.core.validators import MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models.serving import LLMModel, Pool, Variant


def _usd(name: str, text: str = "", *, optional: bool = True) -> "models.FloatField[float | None, float | None]":
    return models.FloatField(
        f"USD {name}", null=optional, blank=optional, validators=[MinValueValidator(0)], help_text=text
    )


class Price(models.Model):
    """Of all that a model, one of its variants or one of its pools serves: the closest that holds counts. Without one, what a request
    costs is unknown; 0 is free.
    """

    model = models.ForeignKey(LLMModel, null=True, blank=True, on_delete=models.CASCADE, related_name="prices")
    variant = models.ForeignKey(Variant, null=True, blank=True, on_delete=models.CASCADE, related_name="prices")
    pool = models.ForeignKey(Pool, null=True, blank=True, on_delete=models.CASCADE, related_name="prices")
    usd_per_1k_prompt_tokens = _usd("per 1,000 prompt tokens", optional=False)
    usd_per_1k_output_tokens = _usd("per 1,000 output tokens", optional=False)
    usd_per_1k_cached_tokens = _usd(
        "per 1,000 cached tokens", "Of the prompt, where the server says so; empty: as the other prompt tokens."
    )
    usd_per_1k_audio_tokens = _usd(
        "per 1,000 audio tokens", "Of the prompt, where the server says so; empty: as the other prompt tokens."
    )
    usd_per_image = _usd("per image", "Beside its tokens; empty: its tokens alone.")
    valid_from = models.DateTimeField(null=True, blank=True, help_text="Empty: always until then.")
    valid_until = models.DateTimeField(
        null=True, blank=True, help_text="Not at this moment any more. Empty: without end."
    )

    class Meta:
        ordering = ["-valid_from", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(model__isnull=False, variant__isnull=True, pool__isnull=True)
                | models.Q(model__isnull=True, variant__isnull=False, pool__isnull=True)
                | models.Q(model__isnull=True, variant__isnull=True, pool__isnull=False),
                name="price_of_model_variant_or_pool",
            ),
            models.CheckConstraint(
                condition=models.Q(valid_from__isnull=True)
                | models.Q(valid_until__isnull=True)
                | models.Q(valid_until__gt=models.F("valid_from")),
                name="price_ends_after_it_begins",
                violation_error_message="It ends before it begins.",
            ),
        ]

    def __str__(self) -> str:
        return f"price of {self.pool or self.variant or self.model}"

    def owned(self) -> Owned:
        of = self.pool or self.variant or self.model
        return of.owned() if of else Owned()
