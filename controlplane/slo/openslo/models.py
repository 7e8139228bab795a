"""OpenSLO documents as they were applied. Parts that Weir does not use are kept, and exported unchanged."""

from django.db import models


class AppliedDocument(models.Model):
    """Written only by `controlplane.slo.openslo.apply`."""

    kind = models.CharField(max_length=40)
    name = models.CharField(max_length=255)
    label = models.CharField(
        "owner label",
        max_length=100,
        blank=True,
        help_text="Of the repository that it is applied from; empty if it was imported once and is edited here.",
    )
    source = models.CharField(max_length=500, help_text="File name.")
    text = models.TextField(help_text="The document with its comments.")
    slug = models.CharField(max_length=100, blank=True, db_index=True, help_text="The slug of its objective.")
    not_evaluated = models.CharField(max_length=500, blank=True, help_text="Why there is no objective.")
    who = models.CharField(max_length=150)
    applied_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "OpenSLO document"
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="one_document_of_a_name")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
