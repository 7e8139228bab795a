"""What a plan is made of: the newest forecasts, the fleet, what was measured, and what people entered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane.fleet.models import Observation, Pool
from controlplane.planning import measured
from controlplane.planning.models import (
    GpuQuota,
    GpuType,
    MeasuredPool,
    PlanSettings,
    PoolCapacity,
    ReplicaCapacityEntry,
    StoredForecast,
)
from controlplane.planning.models.forecast import Measure
from controlplane.telemetry.store.read.demand import STEP_S
from forecasting.capacity import assumptions
from forecasting.capacity.assumptions import HOUR_S, Demand, PlanInputs, PoolAssumptions, ReplicaCapacity, TokenMix
from forecasting.capacity.capacity_memory import chosen_capacity
from forecasting.capacity.replica_capacity import cold_start
from forecasting.demand import DemandKey
from forecasting.forecast import Forecast

DAY_S = 86_400
UNKNOWN_GPU = "an unknown GPU"


def plan_inputs(start_s: int, hours: int, level: float | None = None, reach_s: int | None = None) -> PlanInputs:
    """Everything a plan of `hours` from `start_s` (an epoch) rests on. Without `level` that of the settings.

    Its forecasts are to reach until `reach_s`, by default the plan's end: those of shorter horizons know more.
    """
    settings = PlanSettings.current()
    return PlanInputs(
        demands=tuple(demands(start_s + hours * HOUR_S if reach_s is None else reach_s)),
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
    """The newest forecasts of each key: of its horizons the shortest that reaches `end_s`, else the longest, that can be read."""
    known: dict[DemandKey, dict[str, list[StoredForecast]]] = {}
    for row in StoredForecast.objects.order_by("-horizon_s"):
        if not row.is_empty:
            of_key = known.setdefault(DemandKey(row.model, row.tier, row.region), {})
            of_key.setdefault(row.measure, []).append(row)
    hit_rates = measured.hit_rates()
    for key, measures in sorted(known.items()):
        chosen = {measure: _chosen(rows, end_s) for measure, rows in measures.items()}
        if Measure.REQUESTS in chosen:
            row, requests = chosen[Measure.REQUESTS]
            tokens = {measure: forecast for measure, (_, forecast) in chosen.items() if len(forecast)}
            yield Demand(
                key.model,
                key.tier,
                key.region,
                requests,
                tokens.get(Measure.INPUT_TOKENS),
                tokens.get(Measure.OUTPUT_TOKENS),
                hit_rates.get(key, 0.0),
                history_s=row.measured_steps * STEP_S,
            )


def _chosen(rows: Sequence[StoredForecast], end_s: int) -> tuple[StoredForecast, Forecast]:
    """Of one series, the longest horizon first. Where none can be read, one without steps that says so."""
    reaching = [row for row in reversed(rows) if row.start_s + row.horizon_s >= end_s]
    read = ((row, row.to_forecast()) for row in (*reaching, *(row for row in rows if row not in reaching)))
    first = next(read)
    return first if len(first[1]) else next((each for each in read if len(each[1])), first)


def pools() -> Iterable[PoolAssumptions]:
    """The enabled pools of enabled models."""
    rows = Pool.objects.filter(enabled=True, variant__model__enabled=True).select_related(
        "variant__model", "region", "measured"
    )
    kv_tokens = _kv_tokens()
    entered = {
        row.pool_id: row
        for row in PoolCapacity.objects.select_related("gpu_type").prefetch_related("entries__gpu_type")
    }
    for pool in rows:
        own = entered.get(pool.pk) or PoolCapacity(pool=pool)
        seen: MeasuredPool | None = getattr(pool, "measured", None)
        gpu = own.gpu_type.name if own.gpu_type else UNKNOWN_GPU
        yield PoolAssumptions(
            pool=pool.name,
            model=pool.variant.model.name,
            variant=pool.variant.name,
            region=pool.region.name,
            gpu=gpu,
            capacities=capacities(own, gpu, seen, kv_tokens.get(pool.name)),
            cold_start=cold_start(seen.starts_s if seen else (), own.entered_cold_start_s),
            gpus_per_replica=own.gpus_per_replica,
            weight=float(pool.weight),
            warm_floor=own.warm_floor,
            spare_replicas=own.spare_replicas,
        )


def usd_per_replica_hour(pool: PoolAssumptions, usd_per_gpu_hour: Mapping[str, float]) -> float | None:
    """None where nobody has entered what its GPUs cost: a type without a price has 0."""
    usd = usd_per_gpu_hour.get(pool.gpu)
    return None if usd is None or (not usd and pool.gpus_per_replica) else float(usd) * pool.gpus_per_replica


def _kv_tokens() -> dict[str, int]:
    """By pool the least KV tokens that one of its replicas' servers says it has room for."""
    least: dict[str, int] = {}
    seen = Observation.objects.filter(kind=Observation.Kind.REPLICA).values_list("component", "figures")
    for component, figures in seen:
        if tokens := int(figures.get("kv_tokens") or 0):
            pool = component.partition("/")[0]
            least[pool] = min(tokens, least.get(pool, tokens))
    return least


def capacities(
    own: PoolCapacity, gpu: str, seen: MeasuredPool | None, kv_tokens: int | None = None
) -> dict[str, ReplicaCapacity]:
    """By GPU type. `gpu` is the pool's: of it the ledger counts before a benchmark run, and that before a person's figure; how many of
    them a replica has is said by the pool alone.
    """
    entries = list(own.entries.all()) if own.pk else []
    by_source = {(entry.gpu_type.name, entry.source): capacity(entry, own) for entry in entries}
    known = {}
    for name in {gpu, *(entry.gpu_type.name for entry in entries)}:
        chosen = chosen_capacity(
            seen.to_capacity()
            if seen and name == gpu and seen.gpu == (own.gpu_type.name if own.gpu_type else "")
            else None,
            by_source.get((name, ReplicaCapacityEntry.Source.BENCHMARK)),
            by_source.get((name, ReplicaCapacityEntry.Source.ENTERED)),
        )
        if chosen is not None:
            if name == gpu:
                chosen = replace(chosen, gpus_per_replica=own.gpus_per_replica, kv_tokens=kv_tokens)
            known[name] = chosen
    return known


def capacity(entry: ReplicaCapacityEntry, own: PoolCapacity) -> ReplicaCapacity:
    mix = TokenMix(entry.input_tokens, entry.output_tokens) if entry.input_tokens and entry.output_tokens else None
    return ReplicaCapacity(
        requests_per_s=entry.requests_per_s,
        source="benchmark" if entry.source == ReplicaCapacityEntry.Source.BENCHMARK else "entered",
        mix=mix,
        batching_factor=entry.batching_factor,
        slots=entry.slots,
        gpus_per_replica=own.gpus_per_replica if entry.gpus_per_replica is None else entry.gpus_per_replica,
        lower_bound=entry.lower_bound,
        shown_on=int(entry.measured_at.timestamp()) // DAY_S if entry.measured_at else 0,
        reason=entry.note,
    )
