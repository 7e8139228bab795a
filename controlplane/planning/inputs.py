"""What a plan is made of: the newest forecasts, the fleet, and what people entered."""

from collections.abc import Iterable

from controlplane.fleet.models import Pool
from controlplane.planning.models import (
    GpuQuota,
    GpuType,
    PlanSettings,
    PoolCapacity,
    ReplicaCapacityEntry,
    StoredForecast,
)
from controlplane.planning.models.forecast import Measure
from forecasting.capacity import assumptions
from forecasting.capacity.assumptions import (
    HOUR_S,
    ColdStart,
    Demand,
    PlanInputs,
    PoolAssumptions,
    ReplicaCapacity,
    TokenMix,
)
from forecasting.demand import DemandKey

UNKNOWN_GPU = "an unknown GPU"
ASSUMED_COLD_START_S = 300.0
"""Of a pool whose cold start was neither measured nor entered: minutes to get a node and load weights."""


def plan_inputs(start_s: int, hours: int, level: float | None = None) -> PlanInputs:
    """Everything a plan of `hours` from `start_s` (an epoch) rests on. Without `level` that of the settings."""
    settings = PlanSettings.current()
    return PlanInputs(
        demands=tuple(demands(start_s + hours * HOUR_S)),
        pools=tuple(pools()),
        usd_per_gpu_hour=dict(GpuType.objects.values_list("name", "usd_per_hour")),
        quotas=tuple(
            assumptions.GpuQuota(quota.region.name, quota.gpu_type.name, quota.gpus)
            for quota in GpuQuota.objects.select_related("region", "gpu_type")
        ),
        budget_usd_per_month=settings.budget_usd_per_month,
        level=settings.level if level is None else level,
        margin_s=settings.margin_s,
        start_s=start_s,
        hours=hours,
    )


def demands(end_s: int) -> Iterable[Demand]:
    """The newest forecasts of each key: of its horizons the shortest that reaches `end_s`, else the longest."""
    chosen: dict[DemandKey, dict[str, StoredForecast]] = {}
    for row in StoredForecast.objects.order_by("-horizon_s"):
        measures = chosen.setdefault(DemandKey(row.model, row.tier, row.region), {})
        if row.measure not in measures or row.start_s + row.horizon_s >= end_s:
            measures[row.measure] = row
    for key, measures in sorted(chosen.items()):
        forecasts = {measure: row.to_forecast() for measure, row in measures.items()}
        if Measure.REQUESTS in forecasts:
            yield Demand(
                key.model,
                key.tier,
                key.region,
                forecasts[Measure.REQUESTS],
                forecasts.get(Measure.INPUT_TOKENS),
                forecasts.get(Measure.OUTPUT_TOKENS),
            )


def pools() -> Iterable[PoolAssumptions]:
    """The enabled pools of enabled models."""
    rows = Pool.objects.filter(enabled=True, variant__model__enabled=True).select_related("variant__model", "region")
    entered = {
        row.pool_id: row
        for row in PoolCapacity.objects.select_related("gpu_type").prefetch_related("entries__gpu_type")
    }
    for pool in rows:
        own = entered.get(pool.pk) or PoolCapacity(pool=pool)
        yield PoolAssumptions(
            pool=pool.name,
            model=pool.variant.model.name,
            variant=pool.variant.name,
            region=pool.region.name,
            gpu=own.gpu_type.name if own.gpu_type else UNKNOWN_GPU,
            capacities=capacities(own),
            cold_start=cold_start(own),
            gpus_per_replica=own.gpus_per_replica,
            weight=float(pool.weight),
            warm_floor=own.warm_floor,
            spare_replicas=own.spare_replicas,
        )


def capacities(own: PoolCapacity) -> dict[str, ReplicaCapacity]:
    """By GPU type; a benchmark run counts before a person's figure."""
    entries = list(own.entries.all()) if own.pk else []
    entries.sort(key=lambda entry: entry.source == ReplicaCapacityEntry.Source.BENCHMARK)
    return {entry.gpu_type.name: capacity(entry) for entry in entries}


def capacity(entry: ReplicaCapacityEntry) -> ReplicaCapacity:
    mix = TokenMix(entry.input_tokens, entry.output_tokens) if entry.input_tokens and entry.output_tokens else None
    return ReplicaCapacity(
        requests_per_s=entry.requests_per_s,
        source="benchmark" if entry.source == ReplicaCapacityEntry.Source.BENCHMARK else "entered",
        mix=mix,
        batching_factor=entry.batching_factor,
        slots=entry.slots,
        gpus_per_replica=entry.gpus_per_replica,
        reason=entry.note,
    )


def cold_start(own: PoolCapacity) -> ColdStart:
    if own.entered_cold_start_s is not None:
        return ColdStart(own.entered_cold_start_s, "entered")
    reason = f"neither measured nor entered: {ASSUMED_COLD_START_S:g} s is assumed"
    return ColdStart(ASSUMED_COLD_START_S, "entered", reason=reason)
