"""Enters what plans assume of the pools that a set-up comes with."""

from collections.abc import Iterable

from django.db import transaction

from controlplane.fleet.models import Pool
from controlplane.fleet.seed import SeedCapacity, SeedPool
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry


@transaction.atomic
def create_missing(pools: Iterable[SeedPool]) -> list[str]:
    """Enter each pool's, unless anything was entered of it, and return a line for each."""
    return [
        _enter(Pool.objects.get(name=pool.name), pool.capacity)
        for pool in pools
        if pool.capacity is not None and not PoolCapacity.objects.filter(pool__name=pool.name).exists()
    ]


def _enter(pool: Pool, seed: SeedCapacity) -> str:
    gpu, _ = GpuType.objects.get_or_create(name=seed.gpu, defaults={"usd_per_hour": seed.usd_per_gpu_hour})
    own = PoolCapacity(
        pool=pool,
        gpu_type=gpu,
        gpus_per_replica=seed.gpus_per_replica,
        entered_cold_start_s=seed.cold_start_s,
    )
    own.full_clean()
    own.save()
    entry = ReplicaCapacityEntry(
        pool=own,
        gpu_type=gpu,
        requests_per_s=seed.requests_per_s,
        input_tokens=seed.input_tokens,
        output_tokens=seed.output_tokens,
        slots=seed.slots,
        note=seed.note,
    )
    entry.full_clean()
    entry.save()
    return f"entered of pool {own}: a replica carries {entry}"
