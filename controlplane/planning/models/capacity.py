"""What people enter of capacity: GPU types and their prices, quotas, a budget, and what the replicas of a pool carry."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models import Pool, Region
from controlplane.fleet.validators import validate_name

_ABOVE_0 = MinValueValidator(1e-6)
_MAX_START_S = 86_400


class PlanSettings(models.Model):
    """What the plan of all pools rests on. One row."""

    ONLY = 1

    level = models.FloatField(
        default=0.9,
        validators=[MinValueValidator(0.5), MaxValueValidator(0.99)],
        help_text="The quantile of the forecast demand that replicas are planned for: 0.9 is P90.",
    )
    margin_s = models.PositiveIntegerField(
        "margin, s",
        default=60,
        validators=[MaxValueValidator(_MAX_START_S)],
        help_text="How much earlier than its P90 cold start a replica is started.",
    )
    budget_usd_per_month = models.FloatField(
        "budget, USD per month",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0)],
        help_text="Of all pools together, in a calendar month (UTC). Empty: no limit.",
    )

    class Meta:
        verbose_name = verbose_name_plural = "settings of the plan"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_row_of_plan_settings")]

    def __str__(self) -> str:
        return "Settings of the plan"

    def save(self, *args: object, **kwargs: object) -> None:
        self.pk = self.ONLY
        super().save(*args, **kwargs)  # type: ignore[arg-type]

    @classmethod
    def current(cls) -> "PlanSettings":
        """The row, or the defaults where there is none."""
        return cls.objects.filter(pk=cls.ONLY).first() or cls()


class GpuType(models.Model):
    name = models.CharField(max_length=63, unique=True, validators=[validate_name], help_text="Such as h100-80gb.")
    usd_per_hour = models.FloatField("USD per GPU-hour", validators=[MinValueValidator(0.0)])

    class Meta:
        verbose_name = "GPU type"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class GpuQuota(models.Model):
    """How many GPUs of a type a region has. A type without a row has no limit there."""

    gpu_type = models.ForeignKey(GpuType, on_delete=models.CASCADE, related_name="quotas")
    region = models.ForeignKey(Region, on_delete=models.CASCADE, related_name="gpu_quotas")
    gpus = models.PositiveIntegerField("GPUs")

    class Meta:
        verbose_name = "GPU quota"
        ordering = ["gpu_type__name", "region__name"]
        constraints = [models.UniqueConstraint(fields=["gpu_type", "region"], name="quota_of_type_in_region")]

    def __str__(self) -> str:
        return f"{self.gpus} {self.gpu_type} in {self.region}"


class PoolCapacity(models.Model):
    """What the plan assumes of a pool. A pool without a row has no known GPU type and no cost."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="capacity")
    gpu_type = models.ForeignKey(GpuType, null=True, blank=True, on_delete=models.SET_NULL, related_name="pools")
    gpus_per_replica = models.PositiveSmallIntegerField(
        "GPUs per replica",
        default=1,
        validators=[MaxValueValidator(1024)],
        help_text="Of the pool's GPU type. 0 for a model that needs none: plans count no GPU and no cost of it.",
    )
    entered_cold_start_s = models.FloatField(
        "cold start, s",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0), MaxValueValidator(_MAX_START_S)],
        help_text="From a replica's creation to its first good answer, P90. Used while too few starts were measured.",
    )
    warm_floor = models.PositiveIntegerField(
        default=1, help_text="Replicas that are always warm, however low the demand is."
    )
    spare_replicas = models.PositiveIntegerField(
        default=1, help_text="Replicas beyond the demand, so that one may fail: N + 1."
    )

    class Meta:
        verbose_name = "pool's capacity"
        verbose_name_plural = "pools' capacities"
        ordering = ["pool__name"]

    def __str__(self) -> str:
        return f"{self.pool}: {self.gpus_per_replica} × {self.gpu_type or 'unknown GPU'}"

    def owned(self) -> Owned:
        return self.pool.owned()


class ReplicaCapacityEntry(models.Model):
    """What a replica of a pool carries on one GPU type, by a benchmark run or by a person.

    A capacity that the ledger measured counts before these, and a benchmark run before a person's figure.
    """

    class Source(models.TextChoices):
        BENCHMARK = "benchmark", "Benchmark run"
        ENTERED = "entered", "Entered"

    pool = models.ForeignKey(PoolCapacity, on_delete=models.CASCADE, related_name="entries")
    gpu_type = models.ForeignKey(GpuType, on_delete=models.CASCADE, related_name="entries")
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.ENTERED)
    requests_per_s = models.FloatField(
        "requests/s", validators=[_ABOVE_0], help_text="The most at which a replica keeps its objective."
    )
    gpus_per_replica = models.PositiveSmallIntegerField(
        "GPUs per replica",
        null=True,
        blank=True,
        validators=[MaxValueValidator(1024)],
        help_text="Where a replica on this type needs another number than on the pool's own type. Empty: as many.",
    )
    input_tokens = models.FloatField(
        null=True, blank=True, validators=[_ABOVE_0], help_text="Mean of a request at that load."
    )
    output_tokens = models.FloatField(
        null=True, blank=True, validators=[_ABOVE_0], help_text="Mean of a request at that load."
    )
    batching_factor = models.FloatField(
        null=True, blank=True, validators=[_ABOVE_0], help_text="Mean requests that a replica works on at that load."
    )
    slots = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="The most that it can work on at a time."
    )
    lower_bound = models.BooleanField(
        "at least",
        default=False,
        help_text="No higher load was tried that lost the objective, so a replica may carry more.",
    )
    measured_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When the benchmark ran. Days that lost the objective before it say nothing against it.",
    )
    note = models.CharField(max_length=300, blank=True, help_text="Such as the benchmark run's name and date.")

    class Meta:
        verbose_name = "replica's capacity"
        verbose_name_plural = "replicas' capacities"
        ordering = ["pool__pool__name", "gpu_type__name", "source"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "gpu_type", "source"], name="capacity_of_pool_type_and_source")
        ]

    def __str__(self) -> str:
        return f"{self.requests_per_s:g} requests/s on {self.gpu_type} ({self.get_source_display().lower()})"

    def owned(self) -> Owned:
        return self.pool.owned()

    def clean(self) -> None:
        if (self.input_tokens is None) != (self.output_tokens is None):
            missing = "input_tokens" if self.input_tokens is None else "output_tokens"
            raise ValidationError({missing: "Give the mean of both, input and output tokens, or of neither."})
        given, pool = self.gpus_per_replica, self.pool
        if given is not None and self.gpu_type_id == pool.gpu_type_id and given != pool.gpus_per_replica:
            raise ValidationError(
                {
                    "gpus_per_replica": f"{given} is not what the pool has, {pool.gpus_per_replica}: leave this empty for the pool's own "
                    "GPU type, and change the pool's GPUs per replica where they are wrong."
                }
            )
