"""Replicas of each pool and hour, from demand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecasting.calendar import time_text
from forecasting.capacity.assumptions import CapacityError, PlanInputs, PoolAssumptions, ReplicaCapacity
from forecasting.capacity.demand_on_pools import Grid, Load, Wanted, grid_of, loads_of, shares, wanted_of, work
from forecasting.capacity.limits import limited
from forecasting.capacity.plan import BINDINGS, Basis, Plan, PoolPlan
from forecasting.capacity.pool_capacity import carried_by, replicas_for
from forecasting.capacity.scenario import AS_FORECAST, Scenario
from forecasting.forecast import UNREADABLE
from forecasting.series import F64, I64
from forecasting.stand_in import NO_FORECAST


@dataclass(frozen=True, slots=True, eq=False)
class PoolNeed:
    """What one pool gets, per step, and the replicas that carry it. `units` are requests/s of the mix its capacity was measured with."""

    requests_per_s: F64
    median_rps: F64
    input_tokens_per_s: F64
    output_tokens_per_s: F64
    units: F64
    warm: I64
    unqueued: I64  # of `warm`, how many would do without room for bursts


MIN_REACH = 0.5
"""A forecast that reaches less than this part as far as the farthest is named, and says nothing of how far the plan is forecast."""


def make_plan(inputs: PlanInputs, scenario: Scenario = AS_FORECAST, wanted: Sequence[Wanted] | None = None) -> Plan:
    """The plan by hour of every pool, with the scenario's changes. `wanted` is `wanted_of` these inputs and level, where it is known.

    Demand of several tiers is added up quantile by quantile, as if they peaked together, which errs on the safe side. Whatever is
    missing (a forecast, a capacity, a price, a pool) is named in the notes. Raises CapacityError where the scenario names a region,
    GPU type or model that no pool has.
    """
    pools = changed(inputs, scenario)
    grid = grid_of(inputs)
    level = level_of(inputs, scenario)
    loads = loads_of(wanted_of(inputs, level, grid) if wanted is None else wanted, scenario, grid)
    parts = [shares(pools, load.model, load.region) for load in loads]
    needs = [need_of(pool, loads, parts, grid) for pool in pools]
    plans = [_wanted(pool, need, inputs, grid) for pool, need in zip(pools, needs, strict=True)]
    # The loads of launches have no demand, and come last.
    bases = [Basis.of(d for d, part in zip(inputs.demands, parts, strict=False) if pool.pool in part) for pool in pools]
    plans = [replace(plan, basis=basis) for plan, basis in zip(plans, bases, strict=True)]
    if plans:
        plans = limited(plans, inputs)
    plans = [_judged(plan, need, grid) for plan, need in zip(plans, needs, strict=True)]
    return Plan(grid.start_s, grid.hours, level, tuple(plans), tuple(_notes(inputs, scenario, loads, parts, grid)))


def level_of(inputs: PlanInputs, scenario: Scenario) -> float:
    """The quantile that is planned for."""
    return inputs.level if scenario.level is None else scenario.level


def changed(inputs: PlanInputs, scenario: Scenario) -> list[PoolAssumptions]:
    """The pools that the scenario leaves, on its GPU type."""
    regions = {pool.region for pool in inputs.pools}
    for region in scenario.lost:
        if region not in regions:
            raise CapacityError(f"lost is {region!r}: use a region that has a pool, {_listed(regions)}")
    models = {pool.model for pool in inputs.pools}
    for launch in scenario.launches:
        if launch.model not in models:
            raise CapacityError(f"launch is of {launch.model!r}: use a model that has a pool, {_listed(models)}")
    gpus = {gpu for pool in inputs.pools for gpu in pool.capacities} | set(inputs.usd_per_gpu_hour)
    if scenario.gpu and scenario.gpu not in gpus:
        raise CapacityError(f"gpu is {scenario.gpu!r}: use a type with a capacity or a price, {_listed(gpus)}")
    left = [pool for pool in inputs.pools if pool.region not in scenario.lost]
    return [replace(pool, gpu=scenario.gpu) for pool in left] if scenario.gpu else left


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "of which there is none yet: enter it first"


def capacity_of(pool: PoolAssumptions) -> ReplicaCapacity | None:
    return pool.capacities.get(pool.gpu)


def need_of(pool: PoolAssumptions, loads: Sequence[Load], parts: Sequence[Mapping[str, float]], grid: Grid) -> PoolNeed:
    """The pool's part of all loads; `parts` are their `shares`. Where its capacity is not known, no replicas are."""
    capacity = capacity_of(pool)
    steps = grid.hours * grid.per_hour
    requests, median, tokens_in, tokens_out, units = (np.zeros(steps) for _ in range(5))
    for load, by_pool in zip(loads, parts, strict=True):
        part = by_pool.get(pool.pool, 0.0)
        if not part:
            continue
        requests += load.requests_per_s * part
        median += load.median_rps * part
        mix = capacity.mix if capacity is not None else None
        inputs = load.input_tokens if load.input_tokens is not None else mix.input_tokens if mix else 0.0
        outputs = load.output_tokens if load.output_tokens is not None else mix.output_tokens if mix else 0.0
        tokens_in += load.median_rps * part * inputs * load.inputs
        tokens_out += load.median_rps * part * outputs * load.outputs
        if capacity is not None:
            units += load.requests_per_s * part * work(load, capacity)
    if capacity is None:
        warm = unqueued = np.zeros(steps, dtype=np.int64)
    else:
        warm, unqueued = replicas_for(units, capacity)
    return PoolNeed(requests, median, tokens_in, tokens_out, units, warm, unqueued)


def ahead(warm: I64, steps: int) -> I64:
    """The most of each value and the `steps` that follow it."""
    most = warm.copy()
    for step in range(1, min(steps, len(warm) - 1) + 1):
        np.maximum(most[:-step], warm[step:], out=most[:-step])
    return most


def horizon_s(pool: PoolAssumptions, margin_s: int) -> int:
    """How long before it is needed a replica must be created, s: P90 of its cold start and a margin."""
    return int(np.ceil(pool.cold_start.p90_s)) + margin_s


def _wanted(pool: PoolAssumptions, need: PoolNeed, inputs: PlanInputs, grid: Grid) -> PoolPlan:
    """The pool's plan before quota and budget."""
    capacity = capacity_of(pool)
    in_hour = need.warm.reshape(grid.hours, grid.per_hour)
    most = in_hour.max(axis=1)
    started = ahead(need.warm, -(-horizon_s(pool, inputs.margin_s) // grid.step_s))
    needed: I64 = started.reshape(grid.hours, grid.per_hour).max(axis=1)
    with_spare = np.where(needed > 0, needed + pool.spare_replicas, 0)
    wanted: I64 = np.maximum(with_spare, pool.warm_floor)
    unqueued = need.unqueued.reshape(grid.hours, grid.per_hour).max(axis=1)
    binding = np.full(grid.hours, BINDINGS.index("demand"), dtype=np.int8)
    binding[unqueued < most] = BINDINGS.index("queueing")
    binding[needed > most] = BINDINGS.index("cold_start")
    binding[with_spare <= pool.warm_floor] = BINDINGS.index("warm_floor")
    if capacity is None:
        binding[:] = BINDINGS.index("no_capacity")
    return PoolPlan(
        assumptions=pool,
        gpu=pool.gpu,
        capacity=capacity,
        start_s=grid.start_s,
        requests_per_s=grid.hourly_max(need.requests_per_s),
        median_rps=grid.hourly_mean(need.median_rps),
        input_tokens_per_s=grid.hourly_mean(need.input_tokens_per_s),
        output_tokens_per_s=grid.hourly_mean(need.output_tokens_per_s),
        demand_replicas=needed,
        wanted=wanted,
        replicas=wanted,
        lines=np.zeros_like(wanted),
        shortfall_rps=np.zeros(grid.hours),
        binding=binding,
        gpus_per_replica=pool.gpus_per_replica if capacity is None else capacity.gpus_per_replica,
        usd_per_gpu_hour=inputs.usd_per_gpu_hour.get(pool.gpu, 0.0),
        batching_factor=None,
    )


def _judged(plan: PoolPlan, need: PoolNeed, grid: Grid) -> PoolPlan:
    """The plan with what its replicas do not carry, the batches they work on, and what is missing or assumed."""
    capacity = plan.capacity
    if capacity is None:
        note = (
            f"Capacity of {plan.assumptions.variant} on {plan.gpu} is not known: enter what a replica carries, or let traffic "
            "measure it. Until then the plan keeps the warm floor."
        )
        return replace(plan, shortfall_rps=plan.requests_per_s, notes=(note, *_assumed(plan)))
    units = grid.hourly_max(need.units)
    short = np.maximum(units - carried_by(plan.replicas, capacity), 0.0)
    lacking = np.divide(short, units, out=np.zeros_like(units), where=short > 0)
    lacking[plan.replicas >= plan.demand_replicas] = 0.0
    per_replica = np.divide(units, plan.replicas, out=np.zeros_like(units), where=plan.replicas > 0)
    batch = None
    if capacity.residence_s is not None:
        batch = np.minimum(per_replica * capacity.residence_s, float(capacity.slots or np.inf))
    return replace(plan, shortfall_rps=lacking * plan.requests_per_s, batching_factor=batch, notes=_assumed(plan))


def _assumed(plan: PoolPlan) -> tuple[str, ...]:
    """What this pool's plan rests on that was not measured."""
    pool, capacity, notes = plan.assumptions, plan.capacity, []
    if plan.unpriced:
        notes.append(f"{plan.gpu} has no price: its cost is not known, and in no sum. Enter USD per GPU-hour.")
    if pool.cold_start.source != "ledger":
        how = "was entered, not measured" if pool.cold_start.source == "entered" else "is assumed: enter or measure one"
        notes.append(f"The cold start of {pool.cold_start.p90_s:g} s {how}.")
    if capacity is not None and capacity.source == "entered":
        notes.append(f"The capacity of {capacity.requests_per_s:g} requests/s a replica was entered, not measured.")
    if capacity is not None and capacity.lower_bound:
        notes.append("The objective was kept at every load that was measured: a replica may carry more.")
    if capacity is not None and capacity.mix is None:
        notes.append("With which tokens per request the capacity holds is not known: longer requests need more.")
    return tuple(notes)


def _notes(
    inputs: PlanInputs, scenario: Scenario, loads: Sequence[Load], parts: Sequence[Mapping[str, float]], grid: Grid
) -> Iterator[str]:
    """What is missing or assumed in the plan as a whole."""
    if not inputs.demands:
        yield "There is no forecast of demand yet: the plan keeps every pool at its warm floor."
    if all(pool.region in scenario.lost for pool in inputs.pools):
        yield "There is no pool to plan for: add pools to the fleet, or leave a region."
    for load, by_pool in zip(loads, parts, strict=True):
        if not by_pool:
            yield f"No pool serves {load.model}, which has {load.requests_per_s.max():.3g} requests/s at its peak: add a pool."
    for demand in inputs.demands:
        if demand.requests.candidate in (NO_FORECAST, UNREADABLE):
            yield f"{demand.key}: {demand.requests.reason}"
    ends = {demand: demand.requests.end_s for demand in inputs.demands if len(demand.requests)}
    start_s = min((demand.requests.start_s for demand in ends), default=grid.start_s)
    reach_s = start_s + MIN_REACH * (min(grid.end_s, max(ends.values(), default=grid.end_s)) - start_s)
    until_s = min((end_s for end_s in ends.values() if end_s >= reach_s), default=grid.end_s)
    if until_s < grid.end_s:
        growth = f", {inputs.growth_per_week * 100:+g} % each week" if inputs.growth_per_week else ""
        yield (
            f"Forecasts reach until {time_text(until_s)}. After it they repeat their last whole "
            f"week (or day, or stay at their highest value){growth}."
        )
    if short := sorted((demand for demand in ends if ends[demand] < reach_s), key=lambda demand: ends[demand]):
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        yield f"{short[0].key}{more}: forecasts reach until {time_text(ends[short[0]])} alone."
    for launch in scenario.launches:
        if launch.start_s >= grid.end_s:
            yield f"The launch of {launch.model} on {launch.start.isoformat()} is after the end of the plan, and changes nothing in it."
