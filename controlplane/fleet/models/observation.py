"""The latest observation of each component."""

from django.db import models


class Observation(models.Model):
    """The latest observation of one component. Readers use it while it is fresh (`core/stack_rows.py`)."""

    class State(models.TextChoices):
        UP = "up", "Up"
        DEGRADED = "degraded", "Degraded"
        DOWN = "down", "Down"

    class Kind(models.TextChoices):
        GATEWAY = "gateway", "Gateway"
        CACHE = "cache", "Cache"
        REPLICA = "replica", "Replica"
        TELEMETRY = "telemetry", "Telemetry"
        LANE = "lane", "Lane"
        WORKER = "worker", "Worker"
        CONTROLLER = "controller", "Controller"
        CLUSTER = "cluster", "Cluster"
        POLICY = "policy", "Policy"

    component = models.CharField(
        max_length=255, unique=True, help_text="Such as “gateway” or “chat-large-local/triton-0”."
    )
    kind = models.CharField(max_length=20, choices=Kind.choices)
    state = models.CharField(max_length=20, choices=State.choices)
    figures = models.JSONField(default=dict, help_text="Figures by name, units in the names.")
    counters = models.JSONField(default=dict, help_text="Running totals, from which the next round takes rates.")
    about = models.JSONField(default=dict, help_text="What a replica is, as the gateway found out.")
    observed_at = models.DateTimeField()
    up_at = models.DateTimeField(null=True, blank=True, help_text="When it was last seen up or degraded.")
    down_since = models.DateTimeField(
        null=True, blank=True, help_text="When it was first seen down; empty while it is not."
    )
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["component"]

    def __str__(self) -> str:
        return f"{self.component}: {self.state}"
