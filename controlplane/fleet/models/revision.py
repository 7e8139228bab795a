"""All policies that owners ever had in force."""

from django.db import models


class SnapshotRevision(models.Model):
    """What owners entered, without endpoints and overlay. Immutable. The version grows when, and only when,
    `content_sha256` (of all but the version) changes.
    """

    version = models.PositiveIntegerField(unique=True)
    content_sha256 = models.CharField(max_length=64)
    text = models.TextField(help_text="The document as the gateway read it.")
    author = models.CharField(max_length=500, default="", blank=True, help_text="Empty: what owners entered.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        return f"version {self.version}"
