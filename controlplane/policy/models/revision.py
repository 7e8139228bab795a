"""Policies, as texts that never change."""

import hashlib
from typing import Any

from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models import StepTaken
from controlplane.fleet.validators import validate_name
from controlplane.policy import owning_teams

_IMMUTABLE = ("name", "kind", "number", "text", "author", "restores")


class ImmutableError(Exception):
    """Permanent: a row that is kept for good would have been changed or deleted."""


class KeptQuerySet(models.QuerySet[Any]):
    def delete(self) -> tuple[int, dict[str, int]]:
        raise ImmutableError("revisions of policies are kept for good: retire the revision instead of deleting it")


class PolicyRevision(models.Model):
    """One immutable text of a policy. People are kept by name: no delete of a team, a user or a pool takes a revision along."""

    class Kind(models.TextChoices):
        SCALING = "Scaling", "Scaling"
        ROUTING = "Routing", "Routing"
        DEGRADATION = "Degradation", "Degradation"
        CANARY = "Canary", "Canary"

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        PREVIEWED = "previewed", "Previewed"
        SHADOW = "shadow", "Shadow"
        APPROVED = "approved", "Approved"
        ACTIVE = "active", "Active"
        RETIRED = "retired", "Retired"

    name = models.CharField(max_length=100, validators=[validate_name], help_text="Of the policy: metadata.name.")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    number = models.PositiveIntegerField(help_text="1 is the policy's first revision.")
    text = models.TextField(help_text="YAML or JSON, as its author wrote it.")
    text_sha256 = models.CharField(max_length=64, editable=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    team = models.CharField(max_length=100, blank=True, help_text="The name of the team that owns the policy.")
    author = models.CharField(max_length=150)
    source = models.CharField(
        max_length=20, default="admin", help_text="admin, api, file, bootstrap, canary or roll_back."
    )
    note = models.CharField(max_length=500, blank=True, help_text="Why it was written.")
    restores = models.PositiveIntegerField(
        null=True, blank=True, help_text="The number of the revision whose text a roll-back brought into force again."
    )
    label = models.CharField(
        "owner label",
        max_length=100,
        blank=True,
        help_text="Of the repository that it is applied from; empty if written here.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    previewed_at = models.DateTimeField(null=True, blank=True)
    preview = models.JSONField(default=dict, blank=True, help_text="What the preview measured.")
    shadow_since = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=150, blank=True)
    approved_at = models.DateTimeField(null=True, blank=True)
    activated_by = models.CharField(max_length=150, blank=True)
    activated_at = models.DateTimeField(null=True, blank=True)
    retirement_by = models.CharField(
        max_length=150, blank=True, help_text="Who proposed to retire it, where that waited for another's approval."
    )
    retirement_at = models.DateTimeField(null=True, blank=True)
    retired_by = models.CharField(max_length=150, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = KeptQuerySet.as_manager()

    class Meta:
        verbose_name = "revision of a policy"
        verbose_name_plural = "revisions of policies"
        ordering = ["name", "-number"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["name", "number"], name="number_of_policy_revision"),
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(state="active"), name="active_revision_of_policy"
            ),
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(state="shadow"), name="shadow_revision_of_policy"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}, revision {self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises ImmutableError where the stored text, or whose it is, would change."""
        self.text_sha256 = hashlib.sha256(self.text.encode()).hexdigest()
        stored = PolicyRevision.objects.filter(pk=self.pk).values(*_IMMUTABLE).first() if self.pk else None
        for name, before in (stored or {}).items():
            if getattr(self, name) != before:
                raise ImmutableError(f"{name} of {self} cannot change: write a new revision")
        super().save(*args, **kwargs)

    @property
    def waits_for_retirement(self) -> bool:
        """Whether it is in force until another person approves its retirement."""
        return self.state == self.State.ACTIVE and bool(self.retirement_by)

    def owned(self) -> Owned:
        """Of what its text touches, and of what the other open revisions of its name do: it takes their place. Its author is who proposed
        what waits for an approval.
        """
        others = PolicyRevision.objects.filter(name=self.name).exclude(state=self.State.RETIRED).exclude(pk=self.pk)
        texts = {self.text, *others.values_list("text", flat=True)}
        teams = frozenset().union(*(owning_teams.of_text(text).teams for text in texts))
        return Owned(teams, self.retirement_by if self.waits_for_retirement else self.author)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise ImmutableError(f"{self} is kept for good: retire it instead of deleting it")


class RevisionEvent(StepTaken):
    revision = models.ForeignKey(PolicyRevision, on_delete=models.PROTECT, related_name="events")

    def __str__(self) -> str:
        return f"{self.revision}: {self.what}"
