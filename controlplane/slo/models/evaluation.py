"""What the controller writes: the latest state of each objective."""

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
