"""All that the fleet ever was, as people entered it: one revision for each change."""

from django.db import models


class FleetRevision(models.Model):
    """One change, by one person, in one transaction: as long as it takes to read what differs. Immutable once it is committed."""

    number = models.PositiveIntegerField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True)
    author = models.CharField(max_length=500, blank=True, help_text="Empty: a process.")
    via = models.CharField(max_length=100, blank=True, help_text="page, admin, api, or a process.")
    note = models.CharField(max_length=500, blank=True, help_text="Why it was made.")
    restores = models.PositiveIntegerField(null=True, blank=True, help_text="The revision that it brought back.")

    class Meta:
        ordering = ["-number"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"revision {self.number}"


class FleetChange(models.Model):
    """What a document is from this revision on. The fleet at a revision is the last change of each document until then."""

    revision = models.ForeignKey(FleetRevision, on_delete=models.PROTECT, related_name="changes")
    kind = models.CharField(max_length=30)
    name = models.CharField(max_length=200)
    text = models.TextField(blank=True, help_text="YAML with every field; empty: it was removed.")
    label = models.CharField(max_length=100, blank=True, help_text="Of the files that own it; empty: none.")
    drifted = models.BooleanField(default=False, help_text="It is managed elsewhere, and was changed here since.")

    class Meta:
        ordering = ["pk"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["kind", "name", "revision"], name="change_of_document")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
