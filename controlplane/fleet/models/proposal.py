"""A change of the fleet that is not made yet."""

from typing import Any

from django.db import models

from controlplane.fleet.models.revision import FleetRevision


class StepTaken(models.Model):
    """Who took which step with a change that somebody proposed, of a policy or of the fleet, and when. Append-only."""

    class What(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        PREVIEWED = "previewed", "Previewed"
        SHADOW = "shadow", "Put in shadow"
        SHADOW_ENDED = "shadow_ended", "Shadow ended"
        APPROVED = "approved", "Approved"
        ACTIVATED = "activated", "Activated"
        RETIREMENT = "retirement", "Retirement proposed"
        RETIREMENT_WITHDRAWN = "retirement_withdrawn", "Retirement withdrawn"
        RETIREMENT_REJECTED = "retirement_rejected", "Retirement rejected"
        RETIRED = "retired", "Retired"

    at = models.DateTimeField(auto_now_add=True)
    who = models.CharField(max_length=150)
    what = models.CharField(max_length=20, choices=What.choices)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        abstract = True
        verbose_name = "step"
        ordering = ["-pk"]
        default_permissions = ("view",)


def record_step(proposed: Any, what: StepTaken.What, who: str, note: str = "") -> None:
    """Of a revision of a policy, or a proposal."""
    proposed.events.create(what=what, who=who[:150], note=note.strip()[:500])


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


class ProposalEvent(StepTaken):
    proposal = models.ForeignKey(FleetProposal, on_delete=models.PROTECT, related_name="events")

    def __str__(self) -> str:
        return f"{self.proposal}: {self.what}"
