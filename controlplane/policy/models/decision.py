"""What ticks decided, what became of it, and what the next tick must remember."""

import secrets
import zlib

from django.db import models


def new_key() -> str:
    return secrets.token_hex(8)


def _unpacked(column: bytes | memoryview) -> bytes:
    """What `DecisionRecord.pack` packed."""
    return zlib.decompress(bytes(column))


class DecisionRecord(models.Model):
    """One tick that decided something new, or the first after a while that did not. Append-only.

    `packed` is the record (`controlplane.policy.core.record`): what was seen, the policies, the memory and the decision.
    """

    key = models.CharField(max_length=16, unique=True, default=new_key, help_text="Its name in URLs.")
    at = models.DateTimeField(db_index=True)
    version = models.PositiveIntegerField(help_text="Of the decider that made it.")
    holder = models.CharField(max_length=200)
    generation = models.PositiveBigIntegerField(help_text="Of the leader's lease.")
    changed = models.BooleanField(default=False, help_text="Whether it has changes; else it shows that ticks go on.")
    shadow = models.BooleanField(
        default=False, help_text="As if the revisions in shadow were active: nothing was done."
    )
    took_s = models.FloatField(default=0.0)
    packed = models.BinaryField()

    class Meta:
        verbose_name = "decision"
        ordering = ["-at", "-pk"]
        default_permissions = ("view",)
        indexes = [models.Index(fields=["changed", "at"]), models.Index(fields=["shadow", "at"])]

    def __str__(self) -> str:
        return f"decision {self.key}"

    @property
    def record(self) -> bytes:
        """Canonical JSON."""
        return _unpacked(self.packed)

    @staticmethod
    def pack(record: bytes) -> bytes:
        return zlib.compress(record, 6)


class DecisionChange(models.Model):
    """What a decision changed of one pool or one model: an index of its record."""

    class Kind(models.TextChoices):
        SCALE = "scale", "Replicas"
        HOLD = "hold", "Held"
        LADDER = "ladder", "Ladder"
        ROUTE = "route", "Routes"
        CANARY = "canary", "Canary"
        ALARM = "alarm", "Alarm"

    decision = models.ForeignKey(DecisionRecord, on_delete=models.CASCADE, related_name="changes")
    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    pool = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=200, blank=True)
    tier = models.CharField(max_length=63, blank=True)
    subject = models.CharField(
        max_length=200,
        blank=True,
        help_text="Of an alarm: a pool, a model or a cluster. The first two stand in their own columns too.",
    )
    policy = models.CharField(max_length=100, blank=True)
    revision = models.PositiveIntegerField(null=True, blank=True)
    shadow = models.BooleanField(default=False, help_text="Of a revision in shadow: nothing was done.")
    before = models.FloatField(null=True, blank=True, help_text="Replicas, or the step of the ladder.")
    after = models.FloatField(null=True, blank=True)
    reason = models.CharField(max_length=500)

    class Meta:
        verbose_name = "change"
        ordering = ["-at", "-pk"]
        default_permissions = ("view",)
        indexes = [models.Index(fields=["pool", "at"]), models.Index(fields=["model", "at"])]

    def __str__(self) -> str:
        return f"{self.kind} of {self.about}"

    @property
    def about(self) -> str:
        """The name of what it is about."""
        return self.subject or self.pool or self.model


class Action(models.Model):
    """What was asked of a cluster: the journal from which a process goes on after another was killed.

    `step` is the last step that is done. Each step can be done again without harm (docs/loop.md).
    """

    class Kind(models.TextChoices):
        UP = "up", "More replicas"
        DOWN = "down", "Fewer replicas"
        FLOOR = "floor", "An HPA's floor"

    class Step(models.TextChoices):
        PLANNED = "planned", "Planned"
        DRAINING = "draining", "Draining"
        DRAINED = "drained", "Drained"
        PREFERRED = "preferred", "Chosen for removal"
        ACCEPTED = "accepted", "Accepted by the cluster"
        DONE = "done", "Done"
        ABANDONED = "abandoned", "Given up"
        FAILED = "failed", "Failed"

    decision = models.ForeignKey(DecisionRecord, on_delete=models.PROTECT, related_name="actions")
    cluster = models.CharField(max_length=100)
    pool = models.CharField(max_length=100)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    before = models.PositiveIntegerField(help_text="Replicas that the cluster was to have.")
    after = models.PositiveIntegerField(help_text="Replicas that it is to have.")
    replicas = models.JSONField(default=list, help_text="The replicas that go.")
    step = models.CharField(max_length=10, choices=Step.choices, default=Step.PLANNED)
    token = models.CharField(
        max_length=200, blank=True, help_text="Names the state of the cluster in which it was accepted."
    )
    generation = models.PositiveBigIntegerField(help_text="Of the leader that did the last step.")
    started_at = models.DateTimeField()
    step_at = models.DateTimeField()
    deadline_at = models.DateTimeField(help_text="When it stops waiting for requests to end.")
    endpoints_version = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The first endpoints in which the replicas that go get no new requests."
    )
    retry_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    accepted_at = models.DateTimeField(null=True, blank=True, help_text="When the cluster accepted it.")
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=500, blank=True, help_text="What became of it, in a sentence.")
    traceparent = models.CharField(max_length=55, blank=True, help_text="The trace of the tick that decided it.")

    class Meta:
        ordering = ["-started_at", "-pk"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["pool"], condition=models.Q(ended_at__isnull=True), name="open_action_of_pool"
            )
        ]
        indexes = [models.Index(fields=["pool", "started_at"])]

    def __str__(self) -> str:
        return f"{self.pool}: {self.before} → {self.after}"


class Spent(models.Model):
    """What the replicas of a pool have used on a day (UTC), as ticks have added it up."""

    pool = models.CharField(max_length=100)
    day = models.DateField()
    replica_hours = models.FloatField(default=0.0)
    gpu_hours = models.FloatField(null=True, blank=True, help_text="Empty where a replica's GPUs are not known.")
    usd = models.FloatField(null=True, blank=True, help_text="Empty where the price of its GPUs is not known.")
    at = models.DateTimeField(help_text="Until when it is added up.")

    class Meta:
        verbose_name_plural = "spent"
        ordering = ["-day", "pool"]
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["pool", "day"], name="spent_of_pool_and_day")]

    def __str__(self) -> str:
        return f"{self.pool} on {self.day}"


class Memory(models.Model):
    """What the next tick must remember (`controlplane.policy.core.memory`), and for pages the record of a tick that was just now.

    One row for what acts, one for shadows.
    """

    ACTIVE, SHADOW = "active", "shadow"

    name = models.CharField(max_length=100, unique=True)
    document = models.TextField(help_text="Canonical JSON.")
    at = models.DateTimeField()
    generation = models.PositiveBigIntegerField(default=0)
    packed = models.BinaryField(default=b"", help_text="As a decision's; empty of shadows.")

    class Meta:
        verbose_name_plural = "memory"
        default_permissions = ()

    def __str__(self) -> str:
        return self.name

    @property
    def record(self) -> bytes:
        """Canonical JSON."""
        return _unpacked(self.packed)
