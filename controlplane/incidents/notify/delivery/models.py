"""Destinations, the outbox, inbound webhooks and heartbeats."""

from typing import Any

from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from controlplane.accounts.core.rule import Owned
from controlplane.core import keyring
from controlplane.core.encryption import Keys
from controlplane.core.sealed import Sealed, anything_sealed
from controlplane.fleet.models import Team
from controlplane.incidents.notify.delivery import destinations

AUDIT = "audit"
"""The action of a delivery of an entry of the audit."""
SEVERITIES = ("critical", "error", "warning", "info")


def every_severity() -> list[str]:
    return list(SEVERITIES)


class Endpoints(models.Manager["Endpoint"]):
    def at(self, kind: str, url: str, secret: str) -> "Endpoint":
        """Get or make the endpoint of that address and secret. Raises SealError."""
        keys = keyring.to_seal(anything_sealed)
        digests = keys.digests(secret)
        known = self.filter(kind=kind, url=url, digest__in=digests).order_by("id").first()
        if known is not None:
            return known
        made, _ = self.get_or_create(kind=kind, url=url, digest=digests[0], defaults={"sealed": keys.seal(secret)})
        return made


class Endpoint(Sealed):
    """An address with its secret. It never changes: a destination that changes gets another endpoint, and a page that was opened here is
    resolved here. Destinations with the same address and secret share an endpoint, and so one order of delivery.
    """

    kind = models.CharField(max_length=20, choices=destinations.choices)
    url = models.CharField(max_length=500, blank=True)
    digest = models.CharField(max_length=64, editable=False)  # of the secret, with a key (core/encryption.py)
    created_at = models.DateTimeField(auto_now_add=True)
    paused_until = models.DateTimeField(null=True, blank=True)  # it answered 429

    objects = Endpoints()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "url", "digest"], name="one_endpoint_per_address")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, since {self.created_at:%Y-%m-%d}"

    def seal(self, keys: Keys, text: str) -> None:
        super().seal(keys, text)
        self.digest = keys.digests(text)[0]

    @classmethod
    def in_use(cls) -> models.QuerySet[Any]:
        """Those of destinations and of pending deliveries."""
        pointed_at = Exists(Destination.objects.filter(endpoint=OuterRef("pk")))
        awaited = Exists(Delivery.objects.filter(endpoint=OuterRef("pk"), state=Delivery.State.PENDING))
        return cls.objects.filter(Q(pointed_at) | Q(awaited))


class Destination(models.Model):
    """Where notices go. A team's notices go to its destinations, or to the default ones where it has none."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=destinations.choices)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+", editable=False)
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="destinations",
        help_text="Empty: a default destination, for teams that have none of their own.",
    )
    enabled = models.BooleanField(
        default=True, help_text="A disabled one opens no new pages; those open there are still resolved."
    )
    severities = models.JSONField(default=every_severity, help_text="Severities that it takes.")
    takes_changes = models.BooleanField(
        "takes changes", default=True, help_text="Policy revisions and deployments go here, too."
    )
    takes_audit = models.BooleanField(
        "takes the audit",
        default=False,
        help_text="Each entry goes here, signed. For a signed webhook without a team: those of teams are their owners' to change.",
    )
    fallback = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Gets the pages that cannot be delivered here.",
    )
    fallback_after_s = models.PositiveIntegerField(
        "fall back after, s", default=60, help_text="How long a page may fail here before the fallback gets it too."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def owned(self) -> Owned:
        """A fallback of another team is that team's matter too; default ones are there for all."""
        own = Owned.by(self.team.name if self.team else None)
        return own | Owned.by(self.fallback.team.name) if self.fallback and self.fallback.team else own

    def point_at(self, url: str, secret: str) -> None:
        """Send new pages there. Makes the endpoint's row; the destination is not saved. Raises SealError."""
        self.endpoint = Endpoint.objects.at(self.kind, url, secret)


class Delivery(models.Model):
    """One notice for one endpoint. Of an endpoint and key, only the earliest pending delivery is sent."""

    FILTERS = {"key": "key", "destination": "destination__name", "state": "state", "action": "action"}
    """Of a list of deliveries: fields by their names in a URL."""

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        DELIVERED = "delivered", "Delivered"
        DEAD = "dead", "Refused"
        DROPPED = "dropped", "Not needed"

    destination = models.ForeignKey(
        Destination, null=True, blank=True, on_delete=models.SET_NULL, related_name="deliveries"
    )
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="deliveries")
    key = models.CharField(max_length=255)
    sequence = models.PositiveBigIntegerField()
    action = models.CharField(max_length=20, help_text="trigger, acknowledge, resolve, change or audit")
    is_page = models.BooleanField(help_text="Pages go before changes.")
    notice = models.JSONField()
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    enqueued_at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveIntegerField(default=0)
    claim = models.CharField(max_length=36, blank=True, help_text="The sender's mark while it is on its way.")
    claimed_until = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status of the latest answer.")
    error = models.CharField(max_length=500, blank=True)
    stands_in_for = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="fallbacks"
    )

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "key", "sequence"], name="one_delivery_per_step"),
            models.CheckConstraint(
                condition=Q(state="pending", settled_at=None) | (~Q(state="pending") & Q(settled_at__isnull=False)),
                name="settled_when_no_longer_pending",
            ),
        ]
        indexes = [
            models.Index(F("is_page").desc(), F("due_at"), name="pending_deliveries", condition=Q(state="pending")),
            models.Index(fields=["key", "sequence"], name="deliveries_of_a_key"),
            models.Index(fields=["settled_at"], name="settled_deliveries"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.key} #{self.sequence}"

    def owned(self) -> Owned:
        return Owned.by(self.destination.team.name if self.destination and self.destination.team else None)


class HookSecret(Sealed):
    """PagerDuty signs its webhooks with it. Several may be valid at once, for a rotation."""

    name = models.CharField(max_length=100, unique=True, help_text="Such as the webhook subscription's name.")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "PagerDuty webhook secret"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def in_use(cls) -> models.QuerySet[Any]:
        return cls.objects.filter(enabled=True)


class HookEvent(models.Model):
    """An event that PagerDuty sent. It takes effect once, however often it is sent."""

    event_id = models.CharField(max_length=100, unique=True, help_text="The event's own, which the signature covers.")
    webhook_id = models.CharField(max_length=100, db_index=True, help_text="X-Webhook-Id: the same for each resend.")
    event_type = models.CharField(max_length=100)
    incident_id = models.CharField(max_length=100, blank=True, db_index=True, help_text="PagerDuty's id.")
    key = models.CharField(max_length=255, blank=True)
    occurred_at = models.DateTimeField()
    received_at = models.DateTimeField(default=timezone.now, db_index=True)
    outcome = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-received_at"]

    def __str__(self) -> str:
        return f"{self.event_type} {self.key}"


class Heartbeat(models.Model):
    """When a thread of the worker last worked."""

    SENDER = "sender"
    COMPONENTS = "components"
    PING = "ping"  # the request to WEIR_HEARTBEAT_URL

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField()
    error = models.CharField(max_length=500, blank=True, help_text="Why the latest heartbeat was not accepted.")

    def __str__(self) -> str:
        return self.name
