"""What people enter of capacity: GPU types and their prices, quotas, budgets, and the assumptions of each pool."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.fleet.models import LLMModel, Pool, Region
from controlplane.fleet.validators import validate_name


class GpuType(models.Model):
    name = models.CharField(max_length=63, unique=True, validators=[validate_name], help_text="Such as h100-80gb.")
    usd_per_hour = models.FloatField("USD per GPU-hour", validators=[MinValueValidator(0.0)])
    relative_speed = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.001), MaxValueValidator(1000.0)],
        help_text="Against the other types, such as 1 and 2.1: what a replica's capacity is multiplied by on another type.",
    )

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


class Budget(models.Model):
    """What a model's replicas may cost in an hour, over all its pools in a region, or in all regions together."""

    model = models.ForeignKey(LLMModel, on_delete=models.CASCADE, related_name="budgets")
    region = models.ForeignKey(
        Region,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="budgets",
        help_text="Empty: all together.",
    )
    usd_per_hour = models.FloatField("USD per hour", validators=[MinValueValidator(0.0)])

    class Meta:
        ordering = ["model__name", "region__name"]
        constraints = [
            models.UniqueConstraint(fields=["model", "region"], name="budget_of_model_in_region"),
            models.UniqueConstraint(
                fields=["model"], condition=models.Q(region__isnull=True), name="budget_of_model_in_all_regions"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.region or 'all regions'}: {self.usd_per_hour:g} USD per hour"


class PoolCapacity(models.Model):
    """What the plan assumes of a pool. Empty figures are measured; an entered one is used where nothing was measured."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="capacity")
    gpu_type = models.ForeignKey(GpuType, null=True, blank=True, on_delete=models.SET_NULL, related_name="pools")
    gpus_per_replica = models.PositiveSmallIntegerField(
        "GPUs per replica", default=1, validators=[MinValueValidator(1), MaxValueValidator(1024)]
    )
    entered_requests_per_s = models.FloatField(
        "a replica's requests/s",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.000001)],
        help_text="At its objective. Used where neither the ledger nor a benchmark run has measured it.",
    )
    benchmark_requests_per_s = models.FloatField(
        "a replica's requests/s in a benchmark",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.000001)],
        help_text="At its objective, from a benchmark run. Used where the ledger has not measured it.",
    )
    entered_cold_start_s = models.FloatField(
        "cold start, s",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0), MaxValueValidator(86_400.0)],
        help_text="From a replica's creation to its first good answer, P90. Used where it was not measured.",
    )
    warm_floor = models.PositiveIntegerField(
        default=1, help_text="Replicas that are always warm, however low the demand is."
    )
    spare = models.PositiveIntegerField(default=1, help_text="Replicas beyond the demand, so that one may fail: N + 1.")
    max_replicas = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="Empty: no limit but quota and budget."
    )
    margin_s = models.PositiveIntegerField(
        "margin, s", default=60, help_text="How much earlier than its P90 cold start a replica is started."
    )

    class Meta:
        verbose_name = "pool's capacity"
        verbose_name_plural = "pools' capacities"
        ordering = ["pool__name"]

    def __str__(self) -> str:
        return f"{self.pool}: {self.gpus_per_replica} × {self.gpu_type or 'unknown GPU'}"
