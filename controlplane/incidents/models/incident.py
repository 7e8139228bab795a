"""Incidents and their timelines."""

from django.db import models

from controlplane.accounts.core.rule import Owned

MAX_KEY = 1000  # characters: slug and a scope of every dimension
MAX_NOTICE_KEY = 255  # PagerDuty's limit for a dedup_key


class Incident(models.Model):
    """An alert that somebody has to know of. At most one is open per alert key: the database refuses a second."""

    class Severity(models.TextChoices):
        PAGE = "page", "Page"
        TICKET = "ticket", "Ticket"

    class Status(models.TextChoices):
        OPEN = "open", "Open"
        ACKNOWLEDGED = "acknowledged", "Acknowledged"
        RESOLVED = "resolved", "Resolved"

    class Signal(models.TextChoices):
        FIRING = "firing", "Firing"
        QUIET = "quiet", "Quiet"
        UNKNOWN = "unknown", "Unknown"

    alert_key = models.CharField(max_length=MAX_KEY, help_text="Objective and scope.")
    notice_key = models.CharField(
        max_length=MAX_NOTICE_KEY, unique=True, help_text="By which it is known outside; PagerDuty's dedup_key."
    )
    earlier_keys = models.JSONField(default=list, help_text="By which it was known before it became a page.")
    sequence = models.PositiveIntegerField(default=0, help_text="Of the last notice.")

    objective = models.CharField(max_length=200, blank=True, help_text="The objective's slug; empty: of a component.")
    component = models.CharField(
        max_length=300,
        blank=True,
        default="",
        help_text="Such as “gateway” or “pool:chat-large”; empty: of an objective.",
    )
    explains = models.JSONField(default=list, blank=True, help_text="Scopes in which requests fail because of it.")
    objective_name = models.CharField(max_length=400, help_text="The objective's or the component's name.")
    definition = models.JSONField(default=dict, help_text="The objective, or the component's kind, at opening.")
    scope = models.JSONField(default=dict)
    owner = models.CharField(max_length=200, blank=True)
    runbook = models.CharField(max_length=2000, blank=True)
    runbook_text = models.TextField(blank=True, default="", help_text="Markdown, as of its opening.")
    steps_done = models.JSONField(
        default=dict, blank=True, help_text="Who ticked off a step of the runbook, and when, by its number."
    )
    labels = models.JSONField(default=dict)
    group = models.CharField(max_length=400, help_text="Model and owner: incidents shown together.")

    severity = models.CharField(max_length=10, choices=Severity.choices)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.OPEN)
    signal = models.CharField(max_length=10, choices=Signal.choices, default=Signal.FIRING)
    outage = models.BooleanField(default=False, help_text="Most requests fail: it inhibits latency pages of its scope.")
    queued_as = models.CharField(
        max_length=10,
        choices=Severity.choices,
        blank=True,
        help_text="The severity of its notice in the outbox; empty: there is none.",
    )
    withheld = models.CharField(max_length=20, blank=True, help_text="Why no notice is sent, in a word.")
    withheld_by = models.CharField(max_length=MAX_KEY, blank=True, help_text="The silence, or the inhibiting alert.")

    opened_at = models.DateTimeField()
    since = models.DateTimeField(null=True, blank=True, help_text="The first bad request.")
    quiet_since = models.DateTimeField(null=True, blank=True)
    downgraded_since = models.DateTimeField(null=True, blank=True, help_text="Since when it fires only as a ticket.")
    missing_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when its objective is judged without it."
    )
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=200, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=200, blank=True)
    cool_until = models.DateTimeField(
        null=True, blank=True, help_text="Resolved by a person: if it still fires then, a new incident opens."
    )

    summary = models.CharField(
        max_length=1024, blank=True, help_text="The page's text, as of now; of what is over, as of its end."
    )
    burning = models.JSONField(default=dict, help_text="Burn rates and budget, as last seen.")
    opened_with = models.JSONField(default=dict, help_text="Burn rates and budget, at opening.")
    attribution = models.JSONField(null=True, blank=True, help_text="What the store said, at opening.")
    attribution_missing = models.CharField(max_length=300, blank=True, help_text="Why there is none (yet).")
    changes = models.JSONField(default=list, blank=True, help_text="What was changed before it, the latest first.")

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["alert_key"], condition=~models.Q(status="resolved"), name="one_open_incident_per_key"
            )
        ]
        indexes = [
            models.Index(fields=["status", "-opened_at"], name="incident_by_status"),
            models.Index(fields=["objective", "-opened_at"], name="incident_by_objective"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.alert_key}"

    @classmethod
    def open_ones(cls) -> models.QuerySet["Incident"]:
        return cls.objects.exclude(status=cls.Status.RESOLVED)

    def owned(self) -> Owned:
        return Owned.by(self.owner)

    @property
    def is_open(self) -> bool:
        return self.status != self.Status.RESOLVED


class Entry(models.Model):
    """One line of an incident's timeline. Never changed, never removed."""

    class Kind(models.TextChoices):
        OPENED = "opened", "opened"
        ESCALATED = "escalated", "escalated"
        QUEUED = "queued", "queued"
        WITHHELD = "withheld", "not sent"
        RELEASED = "released", "no longer withheld"
        SIGNAL = "signal", "signal"
        DOWNGRADED = "downgraded", "downgraded"
        ACKNOWLEDGED = "acknowledged", "acknowledged"
        RESOLVED = "resolved", "resolved"
        NOTE = "note", "note"
        STEP = "step", "step"
        ATTRIBUTED = "attributed", "attributed"
        REOPENED = "reopened", "opened again"

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="entries")
    at = models.DateTimeField()
    kind = models.CharField(max_length=20, choices=Kind.choices)
    by = models.CharField(max_length=200, default="weir")
    via = models.CharField(max_length=50, blank=True, help_text="Such as “PagerDuty”; empty: Weir.")
    text = models.TextField(blank=True)

    class Meta:
        ordering = ["at", "id"]
        verbose_name_plural = "entries"

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.kind}"
