"""A change of the fleet that is not made yet."""

from django.db import models

from controlplane.fleet.models.revision import FleetRevision


class FleetProposal(models.Model):
    """Documents that somebody wants in force: out of files, or to bring a revision back. What it says never changes.

    Until it has ended, its state depends on the fleet as it is (`facts_of` in `controlplane/fleet/files/proposals.py`).
    """

    text = models.TextField(blank=True, help_text="Documents, as YAML.")
    removes = models.JSONField(default=list, help_text="Kind and name of documents that go.")
    label = models.CharField(max_length=100, blank=True, help_text="Owner label of its files; empty: none.")
    restores = models.PositiveIntegerField(null=True, help_text="The revision that comes back.")
    note = models.CharField(max_length=500, blank=True)
    author = models.CharField(max_length=150)
    via = models.CharField(max_length=100, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    preview = models.JSONField(
        default=dict, help_text="What it would have changed for recorded requests, and the digest of the plan."
    )
    previewed_at = models.DateTimeField(null=True)
    approved_by = models.CharField(max_length=150, blank=True)
    approved_at = models.DateTimeField(null=True)
    approved_plan = models.CharField(max_length=64, blank=True, help_text="Digest of what it would have changed then.")
    ended_by = models.CharField(max_length=150, blank=True)
    ended_at = models.DateTimeField(null=True)
    revision = models.ForeignKey(FleetRevision, null=True, on_delete=models.PROTECT, related_name="proposals")

    class Meta:
        ordering = ["-pk"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"proposal {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.ended_at is None
