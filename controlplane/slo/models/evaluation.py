"""What the controller writes: the latest state of each objective, and its ticks."""

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


class Tick(models.Model):
    """One round of the controller that leads: its heartbeat. Kept for a day."""

    at = models.DateTimeField(db_index=True, help_text="When the tick ended.")
    took_s = models.FloatField()
    objectives = models.PositiveIntegerField(help_text="How many were judged.")
    failed = models.PositiveIntegerField(default=0, help_text="How many of them could not be judged.")
    holder = models.CharField(max_length=200)
    error = models.CharField(max_length=500, blank=True, help_text="Why no objective could be judged; else empty.")

    class Meta:
        ordering = ["-at"]
        get_latest_by = "at"

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} by {self.holder}"
