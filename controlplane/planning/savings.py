"""What the cache saved, out of the ledger, the capacity of pools, and their prices."""

from django.utils import timezone

from controlplane.fleet.inventory import prices_now
from controlplane.planning.core.saved import Price, Saved, saved
from controlplane.planning.models import MeasuredPool
from controlplane.telemetry.query import cache_figures
from controlplane.telemetry.query.core.question import Question
from forecasting.capacity.assumptions import ReplicaCapacity


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
    rows = MeasuredPool.objects.select_related("pool")
    return {row.pool.name: capacity for row in rows if (capacity := row.to_capacity()) is not None}
