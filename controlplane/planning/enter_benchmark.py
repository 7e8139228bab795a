"""Enters what a benchmark has found that a replica of a pool carries."""

from django.db import transaction
from django.utils import timezone

from controlplane.fleet.models import Pool
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry


def enter_benchmark(
    pool: Pool,
    gpu: str,
    *,
    requests_per_s: float,
    input_tokens: float | None,
    output_tokens: float | None,
    batching_factor: float | None,
    lower_bound: bool,
    note: str,
) -> ReplicaCapacityEntry:
    """It replaces what an earlier benchmark of this pool on this GPU type has found. A pool without a GPU type gets this one."""
    with transaction.atomic():
        gpu_type, _ = GpuType.objects.get_or_create(name=gpu, defaults={"usd_per_hour": 0.0})
        own, _ = PoolCapacity.objects.get_or_create(pool=pool)
        if own.gpu_type is None:
            own.gpu_type = gpu_type
            own.save(update_fields=["gpu_type"])
        entry, _ = ReplicaCapacityEntry.objects.update_or_create(
            pool=own,
            gpu_type=gpu_type,
            source=ReplicaCapacityEntry.Source.BENCHMARK,
            defaults={
                "requests_per_s": float(f"{requests_per_s:.4g}"),
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "batching_factor": batching_factor,
                "lower_bound": lower_bound,
                "measured_at": timezone.now(),
                "note": note[:300],
            },
        )
    return entry
