"""What was measured of pools and of the cache, for plans."""

import contextlib
from collections.abc import Mapping

import msgspec
import structlog
from django.db import models

from controlplane.fleet.models import Pool
from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS
from forecasting.capacity.assumptions import ReplicaCapacity

log = structlog.get_logger(__name__)


class MeasuredPool(models.Model):
    """What a replica of a pool carried at its objective, and how long its replicas took to start. The worker renews it."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="measured")
    measured_at = models.DateTimeField()
    gpu = models.CharField(max_length=63, blank=True, help_text="The GPU type that the pool had then.")
    objective = models.CharField(max_length=100, blank=True, help_text="Which objective decided.")
    capacity = models.JSONField(default=dict, help_text="What a replica carried; empty where it could not be measured.")
    known = models.JSONField(
        default=dict,
        help_text="By objective, what a replica has carried, also where traffic does not show it any more, and what that holds for.",
    )
    reason = models.TextField(help_text="How the capacity was measured, or why it could not be.")
    starts_s = models.JSONField(default=list, help_text="From each creation to the first good answer, s.")

    class Meta:
        verbose_name = "measured pool"
        ordering = ["pool__name"]

    def __str__(self) -> str:
        return f"{self.pool}: {self.reason}"

    def to_capacity(self) -> ReplicaCapacity | None:
        """The value; None too where the row cannot be read: it was written by hand, or by another version."""
        try:
            return msgspec.convert(self.capacity, ReplicaCapacity) if self.capacity else None
        except msgspec.ValidationError as error:
            log.warning("pool.capacity_unreadable", pool=self.pool.name, reason=str(error))
            return None

    def known_of(self, bases: Mapping[str, str]) -> dict[str, ReplicaCapacity]:
        """What is known by objective, where it holds for the same basis still. What cannot be read is not known."""
        known = {}
        for slug, basis in bases.items():
            entry = self.known.get(slug) or {}
            if entry.get("basis") == basis:
                with contextlib.suppress(msgspec.ValidationError):
                    known[slug] = msgspec.convert(entry.get("capacity"), ReplicaCapacity)
        return known


class MeasuredHitRate(models.Model):
    """The share of a demand's requests that the cache, or another request in flight, answered."""

    model = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    tier = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    region = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    hit_rate = models.FloatField(help_text="0 to 1.")
    measured_at = models.DateTimeField()

    class Meta:
        verbose_name = "measured hit rate"
        ordering = ["model", "tier", "region"]
        constraints = [models.UniqueConstraint(fields=["model", "tier", "region"], name="hit_rate_of_demand")]

    def __str__(self) -> str:
        return f"{self.model} {self.tier} {self.region}: {self.hit_rate:.0%}"
