"""What tenants want of their requests and answers."""

from typing import get_args

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.fleet.models.named import Named
from controlplane.fleet.models.traffic import Tenant, Tier
from controlplane.fleet.validators import validate_file_name, validate_name, validate_trusted_url
from inference.contract.snapshot_parts import Pattern

PATTERNS = get_args(Pattern)


class GuardRule(Named):
    """Gateways hold the tenant's requests and answers to it, and keep nothing of what they see."""

    class Kind(models.TextChoices):
        PATTERNS = "patterns", "Patterns in texts"
        LENGTH = "length", "Length of requests"
        MODERATION = "moderation", "A moderation elsewhere"

    class Action(models.TextChoices):
        REFUSE = "refuse", "Refuse"
        MASK = "mask", "Mask, such as [card]"
        REPORT = "report", "Report: count it alone"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="guards")
    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[validate_name],
        help_text="Clients, metrics and traces see it, after the tenant's.",
    )
    enabled = models.BooleanField(default=True)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.PATTERNS)
    action = models.CharField(
        max_length=10, choices=Action, default=Action.REFUSE, help_text="Only patterns can be masked."
    )
    requests = models.BooleanField("of requests", default=True)
    answers = models.BooleanField(
        "of answers",
        default=False,
        help_text="Streams too: a word waits for its end, and 2,000 characters for a moderation.",
    )
    tiers = models.ManyToManyField(
        Tier, blank=True, related_name="guards", help_text="Where it holds; none chosen: in every tier."
    )
    patterns = models.JSONField(default=list, blank=True)
    max_chars = models.PositiveIntegerField(
        "characters", default=0, help_text="So many at most in all texts of a request."
    )
    url = models.CharField(
        "URL of the moderation",
        max_length=500,
        blank=True,
        validators=[validate_trusted_url],
        help_text="With OpenAI's API, such as https://moderation.example.com/v1/moderations. It gets the texts.",
    )
    credential = models.CharField(
        max_length=100,
        blank=True,
        validators=[validate_file_name],
        help_text="The name of the secret that it wants as bearer token. The gateway reads it from WEIR_BACKEND_CREDENTIALS_DIR/name.",
    )
    timeout_ms = models.PositiveIntegerField(
        "timeout, ms", default=1_000, validators=[MinValueValidator(1), MaxValueValidator(60_000)]
    )
    is_open = models.BooleanField(
        "open on failure",
        default=False,
        help_text="Where the moderation does not answer, the text passes; else it is a 503.",
    )

    class Meta:
        ordering = ["tenant__name", "name"]
        verbose_name = "guard rule"

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"

    def clean(self) -> None:
        missing = {"patterns": self.patterns, "length": self.max_chars, "moderation": self.url}
        names = {"patterns": "patterns", "length": "max_chars", "moderation": "url"}
        if self.kind in missing and not missing[self.kind]:
            raise ValidationError({names[self.kind]: "A rule of this kind needs it."})
        if self.action == self.Action.MASK and self.kind != self.Kind.PATTERNS:
            raise ValidationError({"action": "Only patterns can be masked: refuse, or report."})
        if not (self.requests or self.answers):
            raise ValidationError({"requests": "It holds for neither requests nor answers: choose."})
        if self.kind == self.Kind.LENGTH and not self.requests:
            raise ValidationError({"requests": "A length is that of requests; that of answers is max_output_tokens."})
