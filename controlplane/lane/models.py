"""Files, batches, their lines, and the workers that run them. Texts of clients are in objects (`objects/`), and never here."""

from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, URLValidator
from django.db import models
from django.db.models import Q

from controlplane.accounts.core.rule import Owned
from controlplane.core.sealed import Sealed
from controlplane.fleet.models import Tenant
from controlplane.lane.core import states
from controlplane.lane.core.jobs import MAX_URL_CHARS


class StoredFile(models.Model):
    """A file of a tenant."""

    id = models.CharField(primary_key=True, max_length=64)
    tenant = models.CharField(max_length=100)
    purpose = models.CharField(max_length=32)
    filename = models.CharField(max_length=255)
    bytes = models.BigIntegerField()
    lines = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    object = models.CharField(max_length=32, unique=True, help_text="The key of its bytes.")

    class Meta:
        verbose_name = "file"
        indexes = [models.Index(fields=["tenant", "created_at", "id"], name="files_of_tenant")]

    def __str__(self) -> str:
        return self.id


class Batch(models.Model):
    """Lines that belong together: those of a file, or the single line of a job, which may be a response in the background. Its row is
    locked by whoever changes it or its lines; so its counts are those of its lines, always.
    """

    name = models.CharField(max_length=64, unique=True, help_text="Its id, for clients.")
    kind = models.CharField(max_length=8, default=states.BATCH)
    tenant = models.CharField(max_length=100)
    key_sha256 = models.CharField(max_length=64, help_text="Of the API key that made it: lines run with what it may.")
    endpoint = models.CharField(max_length=64)
    input_file_id = models.CharField(max_length=64, blank=True)
    input_object = models.CharField(
        max_length=32, blank=True, help_text="The key of its input, for as long as it needs it."
    )
    completion_window = models.CharField(max_length=8)
    metadata = models.JSONField(null=True)
    output_expires_after_s = models.PositiveIntegerField(null=True)

    status = models.CharField(max_length=16, default=states.VALIDATING)
    ends_as = models.CharField(
        max_length=16, default=states.COMPLETED, help_text="What it becomes once its files are written."
    )
    model = models.CharField(max_length=200, blank=True)
    total = models.PositiveIntegerField(default=0)
    completed = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    uncounted = models.PositiveIntegerField(default=0, help_text="Lines whose answers say no tokens.")
    output_file_id = models.CharField(max_length=64, blank=True)
    error_file_id = models.CharField(max_length=64, blank=True)
    retry_of = models.CharField(max_length=64, blank=True, help_text="The batch whose failed lines it runs again.")
    errors_by_kind = models.JSONField(default=dict, help_text="Lines of the error file, by status or code.")
    problems = models.JSONField(default=list, help_text="Why it failed before a line ran.")

    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    in_progress_at = models.DateTimeField(null=True)
    finalizing_at = models.DateTimeField(null=True)
    cancelling_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    callback_url = models.CharField(max_length=MAX_URL_CHARS, blank=True, help_text="Gets a webhook at its end.")
    streams = models.BooleanField(default=False, help_text="Its answer can be read while it comes.")
    previous = models.CharField(max_length=64, blank=True, help_text="The response that this one goes on from.")
    kept_until = models.DateTimeField(null=True, help_text="When a job that has ended is deleted, with its texts.")

    chore_attempt = models.BigIntegerField(
        null=True, help_text="Of the lane that checks its input or writes its files."
    )
    chore_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "batches"
        indexes = [
            models.Index(fields=["kind", "tenant", "id"], name="batches_of_tenant"),
            models.Index(fields=["input_object"], name="batches_of_input"),
            models.Index(fields=["status"], name="open_batches", condition=Q(status__in=states.OPEN)),
        ]

    def __str__(self) -> str:
        return self.name

    def owned(self) -> Owned:
        return Owned.by(Tenant.objects.filter(name=self.tenant).values_list("team__name", flat=True).first())

    def counts(self) -> dict[str, int]:
        """As clients read them."""
        return {"total": self.total, "completed": self.completed, "failed": self.failed}

    @property
    def says_tokens(self) -> bool:
        """Whether its counts of tokens are those of all its answers: servers may say none."""
        return not self.uncounted and bool(self.input_tokens or self.output_tokens or not self.completed)

    def rate_per_s(self, now: datetime) -> float | None:
        """Lines that got results, the mean since its first could run; None while none has one."""
        until, ended = self.finalizing_at or self.ended_at or now, self.completed + self.failed
        took_s = (until - self.in_progress_at).total_seconds() if self.in_progress_at is not None else 0.0
        return ended / took_s if ended and took_s > 0 else None

    def ends_at(self, now: datetime) -> datetime | None:
        """When its last line will have a result at that rate; None where that is not known, or the batch does not run."""
        rate, left = self.rate_per_s(now), self.total - self.completed - self.failed
        runs = self.status == states.IN_PROGRESS and rate is not None
        return now + timedelta(seconds=left / rate) if runs and rate else None


class TenantLimits(models.Model):
    """What a tenant may leave with the lane. A number of 0 is no limit, but of `job_retention_hours`."""

    tenant = models.CharField(
        max_length=100, unique=True, blank=True, help_text="Empty: every tenant without limits of its own."
    )
    max_lines = models.PositiveIntegerField(
        default=0,
        help_text="Lines of batches and jobs that have not ended. A batch beyond it fails before a line runs, and a job is refused; "
        "0 is no limit.",
    )
    max_stored_bytes = models.PositiveBigIntegerField(
        default=0,
        help_text="Bytes of all its files and jobs. An upload or job beyond it is refused, outputs are not; 0 is no limit.",
    )
    retention_days = models.PositiveSmallIntegerField(
        default=0, help_text="How long outputs are kept whose batch does not say, days; 0 keeps them."
    )
    hurries = models.BooleanField(
        default=False,
        help_text="Lines of a batch that would end after its deadline at its rate so far are served in the tenant's own tier.",
    )
    job_retention_hours = models.PositiveSmallIntegerField(
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(720)],
        help_text="How long jobs and background responses are kept after their end, hours: 1 to 720.",
    )
    callback_url = models.CharField(
        max_length=MAX_URL_CHARS,
        blank=True,
        validators=[URLValidator(schemes=["https", "http"])],
        help_text="Gets a webhook at the end of each of its batches and background responses, signed with its secret of callbacks.",
    )

    class Meta:
        verbose_name = verbose_name_plural = "limits of batches"

    def __str__(self) -> str:
        return self.tenant or "every other tenant"

    def clean(self) -> None:
        if self.callback_url and not CallbackSecret.objects.filter(tenant=self.tenant).exists():
            message = "Webhooks go to a tenant of its own, and are signed: enter its secret of callbacks first."
            raise ValidationError({"callback_url": message})


class CallbackSecret(Sealed):
    """What a tenant's webhooks are signed with."""

    tenant = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "secret of callbacks"
        verbose_name_plural = "secrets of callbacks"

    def __str__(self) -> str:
        return self.tenant


class Callback(models.Model):
    """The webhook of a batch or job that has ended. It is written with its end, and sent until it is accepted or refused."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        REFUSED = "refused"

    job = models.OneToOneField(Batch, on_delete=models.CASCADE, related_name="callback")
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING)
    due_at = models.DateTimeField(help_text="While it is on its way: when that has taken too long.")
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status of the latest answer.")
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="pending_callbacks", condition=Q(state="pending"))]

    def __str__(self) -> str:
        return str(self.pk)


class Change(models.Model):
    """That a batch or job has come to stand so. `store/changes.py` says in which order they are read."""

    transaction = models.BigIntegerField()
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="changes")
    tenant = models.CharField(max_length=100)
    status = models.CharField(max_length=16, help_text="As clients read it.")
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "transaction", "id"], name="changes_of_tenant"),
            models.Index(fields=["at"], name="old_changes"),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}: {self.status}"


class Once(models.Model):
    """A request that its client may send again: what it made, by its Idempotency-Key."""

    tenant = models.CharField(max_length=100)
    key = models.CharField(max_length=255)
    body_sha256 = models.CharField(max_length=64)
    made = models.CharField(max_length=64, help_text="The id of the file, batch or job.")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "requests with a key"
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="key_of_tenant")]

    def __str__(self) -> str:
        return f"{self.tenant}: {self.made}"


class Worker(models.Model):
    """A process that runs lines, for as long as it renews its lease. Its id is never used again."""

    id = models.BigIntegerField(primary_key=True)
    leased_until = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)


class Line(models.Model):
    """A request of a batch: where it is in the input, and where its result is in a segment.

    `attempt` names the dispatch that it is in flight by. A result counts if it names the same, so it counts once.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="lines")
    number = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    length = models.PositiveIntegerField()
    state = models.PositiveSmallIntegerField(default=states.WAITING)
    tries = models.PositiveIntegerField(default=0)
    prefix = models.PositiveIntegerField(
        default=0, help_text="The same where the prompt begins alike: such lines run together."
    )
    deaths = models.PositiveSmallIntegerField(default=0, help_text="Of workers that had it in flight.")
    not_before = models.DateTimeField(null=True)
    worker = models.BigIntegerField(null=True)
    attempt = models.BigIntegerField(null=True)
    events_of = models.BigIntegerField(null=True, help_text="The attempt whose events may be read.")
    events_bytes = models.BigIntegerField(default=0, help_text="So many bytes of them.")
    is_read = models.BooleanField(default=False, help_text="Some were read, so that it cannot begin again.")
    status_code = models.PositiveSmallIntegerField(default=0)
    code = models.CharField(max_length=32, blank=True, help_text="Of an error without an answer.")
    segment = models.BigIntegerField(null=True, help_text="The segment that has the result.")
    result_offset = models.BigIntegerField(default=0)
    result_length = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "number"], name="line_of_batch")]
        indexes = [
            models.Index(
                fields=["batch", "deaths", "prefix", "number"], name="waiting_lines", condition=Q(state=states.WAITING)
            ),
            models.Index(fields=["worker"], name="running_lines", condition=Q(state=states.RUNNING)),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}:{self.number}"
