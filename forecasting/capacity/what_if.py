"""Plans of several scenarios side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecasting.capacity.assumptions import CapacityError, PlanInputs
from forecasting.capacity.deadlines import WORK_HOURS, OpenWork, with_lines, work_plans
from forecasting.capacity.demand_on_pools import grid_of, wanted_of
from forecasting.capacity.plan import BINDINGS, Binding, Plan
from forecasting.capacity.replicas import level_of, make_plan
from forecasting.capacity.scenario import MAX_SCENARIOS, Scenario


@dataclass(frozen=True, slots=True)
class Totals:
    """A plan in figures. `shortfall_hours` counts hours of pools in which the objective would not be kept. Of `unforecast` pools
    nothing says what is to come: `peak_rps` is of the others, None where there are none. Of `unpriced` pools no cost is counted.
    """

    peak_rps: float | None
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    lines_cost_usd: float  # of it that of replicas for work that can wait
    shortfall_hours: int
    most_shortfall_rps: float
    binding: Binding  # what binds most often, of pools and hours
    binding_share: float  # 0..1
    unforecast: int = 0
    unpriced: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """A scenario's plan and its figures. `error` says why there is none, in a sentence that names field and remedy."""

    scenario: Scenario
    plan: Plan | None
    totals: Totals | None
    error: str = ""


def compare(
    inputs: PlanInputs, scenarios: Sequence[Scenario], works: Sequence[OpenWork] = (), now_s: float = 0.0
) -> tuple[WhatIf, ...]:
    """Each scenario's plan, in order, with what it needs for the `works` that are open now. Raises CapacityError for more than
    MAX_SCENARIOS.
    """
    if len(scenarios) > MAX_SCENARIOS:
        raise CapacityError(f"scenario is given {len(scenarios)} times: compare at most {MAX_SCENARIOS}")
    grid = grid_of(inputs)
    levels = {level_of(inputs, scenario) for scenario in scenarios}
    wanted = {level: wanted_of(inputs, level, grid) for level in levels}
    soon = replace(inputs, hours=WORK_HOURS)

    def planned(scenario: Scenario) -> Plan:
        plan = make_plan(inputs, scenario, wanted[level_of(inputs, scenario)])
        return with_lines(plan, work_plans(soon, works, now_s, scenario))

    return tuple(_whatif(scenario, planned) for scenario in scenarios)


def _whatif(scenario: Scenario, planned: Callable[[Scenario], Plan]) -> WhatIf:
    try:
        plan = planned(scenario)
    except CapacityError as error:
        return WhatIf(scenario, None, None, str(error))
    return WhatIf(scenario, plan, totals(plan))


def totals(plan: Plan) -> Totals:
    """A plan in figures. Peaks are of the busiest hour of all pools together."""
    if not plan.pools:
        return Totals(None, 0, 0, 0.0, 0.0, 0.0, 0, 0.0, "warm_floor", 0.0)
    shortfall = np.stack([pool.shortfall_rps for pool in plan.pools])
    counts = np.bincount(np.concatenate([pool.binding for pool in plan.pools]), minlength=len(BINDINGS))
    most = int(counts.argmax())
    unforecast = plan.unforecast
    forecast = [pool.requests_per_s for pool in plan.pools if pool.pool not in unforecast]
    return Totals(
        peak_rps=float(np.sum(forecast, axis=0).max()) if forecast else None,
        peak_replicas=int(np.sum([pool.replicas for pool in plan.pools], axis=0).max()),
        peak_gpus=int(np.sum([pool.replicas * pool.gpus_per_replica for pool in plan.pools], axis=0).max()),
        gpu_hours=plan.gpu_hours,
        cost_usd=plan.cost_usd,
        lines_cost_usd=plan.lines_cost_usd,
        shortfall_hours=int((shortfall > 0).sum()),
        most_shortfall_rps=float(shortfall.sum(axis=0).max()),
        binding=BINDINGS[most],
        binding_share=float(counts[most] / counts.sum()),
        unforecast=len(unforecast),
        unpriced=sum(pool.unpriced for pool in plan.pools),
    )
