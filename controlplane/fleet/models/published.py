"""What gateways are to obey now, what of it owners have not entered in the fleet, and all that owners ever had in force."""

from django.db import models


class PublishedSnapshot(models.Model):
    """The document in force: one row. Endpoints and overlay change without a revision, and have versions of their own."""

    text = models.TextField(default="")
    etag = models.CharField(max_length=64, default="", help_text="Names the document: a digest of it.")
    endpoints_version = models.PositiveBigIntegerField(default=0)
    endpoints_sha256 = models.CharField(max_length=64, default="")
    overlay = models.TextField(default="", help_text="What the controller decided last, with its version and expiry.")
    overlay_version = models.PositiveBigIntegerField(default=0)
    generation = models.PositiveBigIntegerField(default=0, help_text="Of the leader that decided the overlay.")
    written_ms = models.PositiveBigIntegerField(
        default=0, help_text="Unix time; always more than of the document before."
    )

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"endpoints {self.endpoints_version}, overlay {self.overlay_version}"


class RoutingRules(models.Model):
    """The routing rules of an active policy, as gateways get them. Written where policies are activated."""

    policy = models.CharField(max_length=100, unique=True)
    rules = models.TextField(help_text="A list of rules, in order, as JSON.")

    class Meta:
        ordering = ["policy"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.policy


class SnapshotRevision(models.Model):
    """What owners entered, without endpoints and overlay. Immutable. The version grows when, and only when,
    `content_sha256` (of all but the version) changes.
    """

    version = models.PositiveIntegerField(unique=True)
    content_sha256 = models.CharField(max_length=64)
    text = models.TextField(help_text="The document as the gateway read it.")
    author = models.CharField(max_length=500, default="", blank=True, help_text="Empty: not known.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        return f"version {self.version}"
