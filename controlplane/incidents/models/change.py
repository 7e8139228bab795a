"""Changes: policy revisions and deployments. Incidents show those that came before them."""

from collections.abc import Mapping

from django.db import models


class ChangeRecord(models.Model):
    """Destinations are notified of it once: `identity` is unique."""

    identity = models.CharField(max_length=200, unique=True, help_text="Such as “policy-revision/14”.")
    at = models.DateTimeField()
    summary = models.CharField(max_length=1024)
    source = models.CharField(max_length=200)
    team = models.CharField(max_length=200, blank=True)
    scope = models.JSONField(default=dict, blank=True, help_text="What it touches, by dimension; empty: everything.")
    link = models.CharField(max_length=2000, blank=True)

    class Meta:
        verbose_name = "change"
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["at"], name="change_by_time")]

    def __str__(self) -> str:
        return self.identity

    def touches(self, scope: Mapping[str, str]) -> bool:
        """Whether requests of `scope` may be among what it changed."""
        return all(scope.get(name, value) == value for name, value in self.scope.items())
