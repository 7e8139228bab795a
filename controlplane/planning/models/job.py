"""Long work of planners: who started it, how far it is, and what came of it."""

from django.db import models


class PlanJob(models.Model):
    """A job of the worker. It is taken up again by another worker if its worker ends; see controlplane/planning/jobs.py."""

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    kind = models.CharField(max_length=40, help_text="Such as refresh.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED, db_index=True)
    request = models.JSONField(default=dict, help_text="What was wanted.")
    author = models.CharField(max_length=150, blank=True, help_text="Empty: by schedule.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True, help_text="When its worker last gave a sign of life.")
    ended_at = models.DateTimeField(null=True, blank=True)
    done = models.PositiveIntegerField(default=0, help_text="Steps that are done.")
    total = models.PositiveIntegerField(default=0, help_text="Steps in all; 0 before it is known.")
    note = models.CharField(max_length=300, blank=True, help_text="What it does now, or what it did.")
    holder = models.CharField(max_length=200, blank=True, help_text="The worker that runs it.")
    attempt = models.PositiveSmallIntegerField(default=0, help_text="How often a worker has begun it.")
    cancel_requested = models.BooleanField(default=False)
    result = models.JSONField(default=dict)
    error = models.CharField(max_length=1000, blank=True)

    class Meta:
        verbose_name = "job"
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}: {self.state}"

    @property
    def ended(self) -> bool:
        return self.state in (self.State.DONE, self.State.FAILED, self.State.CANCELLED)

    @property
    def share(self) -> float | None:
        """How much of it is done, 0..1; None before that is known."""
        return min(1.0, self.done / self.total) if self.total else None
