"""What should be warm when."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from forecasting.capacity.assumptions import PlanInputs, PoolAssumptions
from forecasting.capacity.demand_on_pools import Grid, grid_of, loads_of, shares, unread, wanted_of
from forecasting.capacity.pool_capacity import KEPT_FOR, replicas_for
from forecasting.capacity.replicas import PoolNeed, ahead, capacity_of, horizon_s, need_of
from forecasting.capacity.scenario import AS_FORECAST
from forecasting.series import I64


@dataclass(frozen=True, slots=True)
class WarmChange:
    """`replicas` must be warm at `warm_at_s`. Where there are more than before, they must be started at `start_by_s`."""

    start_by_s: int
    warm_at_s: int
    replicas: int


@dataclass(frozen=True, slots=True, eq=False)
class WarmPlan:
    """A pool's replicas in steps of `step_s` from `start_s`: `warm` must be ready, and `started` must have been created.

    `started[i]` is the most of `warm` from step i until `horizon_s` later: P90 of the cold start + margin. `kept` is what KEPT_FOR times
    the demand needs: removing any of these is not worth it.
    """

    pool: str
    start_s: int
    step_s: int
    horizon_s: int
    warm: I64
    started: I64
    kept: I64
    reason: str

    def changes(self) -> Iterator[WarmChange]:
        """The first state, then every change, in order."""
        before = -1
        for step, replicas in enumerate(self.warm.tolist()):
            if replicas != before:
                warm_at_s = self.start_s + step * self.step_s
                lead_s = self.horizon_s if replicas > before else 0
                yield WarmChange(warm_at_s - lead_s, warm_at_s, replicas)
            before = replicas


def warm_plans(inputs: PlanInputs) -> tuple[WarmPlan, ...]:
    """What each pool needs warm, in the forecast's steps: demand at the level planned for, spare replicas and the warm floor.

    Quota and budget are not applied: they belong to the hour's plan. Where the capacity is not known it is the warm floor.
    """
    grid = grid_of(inputs)
    loads = loads_of(wanted_of(inputs, inputs.level, grid), AS_FORECAST, grid)
    parts = [shares(inputs.pools, load.model, load.region) for load in loads]
    plans = (_warm_plan(pool, inputs, grid, need_of(pool, loads, parts, grid)) for pool in inputs.pools)
    said = unread(inputs)
    return tuple(replace(each, reason=f"{each.reason} {said.get(each.pool, '')}".rstrip()) for each in plans)


def _warm_plan(pool: PoolAssumptions, inputs: PlanInputs, grid: Grid, need: PoolNeed) -> WarmPlan:
    capacity = capacity_of(pool)
    warm = with_spare(need.warm, pool)
    kept = warm if capacity is None else with_spare(replicas_for(KEPT_FOR * need.units, capacity)[0], pool)
    lead_s = horizon_s(pool, inputs.margin_s)
    cold = pool.cold_start
    measured = f"as {cold.source}" if cold.source != "ledger" else f"as measured over {cold.starts} starts"
    reason = (
        f"A cold start takes {cold.p90_s:.0f} s at P90, {measured}. With a margin of {inputs.margin_s} s, "
        f"replicas are created {lead_s} s ahead."
    )
    if capacity is None:
        reason = (
            f"What a replica of {pool.variant} carries on {pool.gpu} is not known: the warm floor is kept. {reason}"
        )
    started = ahead(warm, -(-lead_s // grid.step_s))
    return WarmPlan(pool.pool, grid.start_s, grid.step_s, lead_s, warm, started, kept, reason)


def with_spare(needed: I64, pool: PoolAssumptions) -> I64:
    """Replicas for the demand, with the spare ones, or the warm floor."""
    both: I64 = np.maximum(np.where(needed > 0, needed + pool.spare_replicas, 0), pool.warm_floor)
    return both
