"""What the controller writes: the latest state of each objective, and when the ledger missed requests."""

from django.db import models

from controlplane.slo.core.alert import MAX_KEY_CHARS
from controlplane.slo.models.objective import StoredObjective


class ObjectiveState(models.Model):
    """The latest evaluation of one objective in one scope. It is trusted only while it is fresh."""

    class State(models.TextChoices):
        FIRING = "firing", "Firing"
        QUIET = "quiet", "Quiet"
        UNKNOWN = "unknown", "Unknown"

    objective = models.ForeignKey(StoredObjective, on_delete=models.CASCADE, related_name="states")
    key = models.CharField(max_length=MAX_KEY_CHARS, unique=True, help_text="The alert's key.")
    scope = models.JSONField(default=dict)
    at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=State.choices)
    severity = models.CharField(max_length=10, blank=True)
    maintenance = models.BooleanField(default=False)
    since = models.DateTimeField(help_text="Since when it is in this state.")
    document = models.JSONField(default=dict, help_text="Verdicts, budget, and why it is unknown.")

    class Meta:
        ordering = ["key"]

    def __str__(self) -> str:
        return f"{self.key}: {self.state}"


class MeasurementGap(models.Model):
    """A time in which the ledger was not trusted, until it is known to have all requests that gateways ended then."""

    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Empty while it lasts.")
    why = models.TextField(help_text="As it was known when it began.")
    ended = models.JSONField(
        null=True, help_text="What gateways counted in it, as [model, tier, requests]; null: not known."
    )
    missing = models.JSONField(null=True, help_text="Those of them that the ledger has no row of.")
    counted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["began_at"]

    def __str__(self) -> str:
        return f"{self.began_at:%Y-%m-%d %H:%M}: {self.why}"
