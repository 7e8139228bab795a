"""What the cache saved, out of the ledger, the capacity of pools, and their prices."""

import msgspec
from django.utils import timezone

from controlplane.fleet.inventory import prices_now
from controlplane.planning.core.saved import Price, Saved, saved
from controlplane.planning.models import MeasuredPool
from controlplane.telemetry.query import cache_figures
from controlplane.telemetry.query.core.question import Question
from forecasting.capacity.assumptions import CapacityError, ReplicaCapacity


def savings(question: Question) -> list[Saved]:
    """By model and routing rule, those of the most requests first. Raises the errors of the store."""
    prices = {
        pool: Price(prompt, output)
        for pool, it in prices_now(timezone.now()).items()
        if (prompt := it.usd_per_1k_prompt_tokens) is not None and (output := it.usd_per_1k_output_tokens) is not None
    }
    return saved(cache_figures.rows(question), _capacities(), prices)


def _capacities() -> dict[str, ReplicaCapacity]:
    """Of the pools that were measured."""
    known = {}
    for row in MeasuredPool.objects.select_related("pool"):
        try:
            capacity = row.to_capacity()
        except (msgspec.ValidationError, CapacityError):
            continue  # written by hand: the plan says so
        if capacity is not None:
            known[row.pool.name] = capacity
    return known
