"""What pages and REST read of a planner's question, with one answer to bad ones."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.planning.inputs import plan_inputs
from controlplane.planning.open_work import open_work, whole_plan
from controlplane.planning.quarter import Quarter
from controlplane.telemetry.query.core.errors import BadQuestionError
from forecasting.capacity.assumptions import HOUR_S, CapacityError, PlanInputs
from forecasting.capacity.plan import Plan, PoolPlan
from forecasting.capacity.scenario import Scenario, parse_scenario
from forecasting.capacity.what_if import WhatIf, compare


def this_hour_s() -> int:
    """The epoch at which the present hour began."""
    return int(time.time()) // HOUR_S * HOUR_S


def scenario_of(text: str) -> Scenario:
    """Raises BadQuestionError."""
    try:
        return parse_scenario(text)
    except CapacityError as error:
        raise _refused("scenario", text, str(error)) from None


def compared(inputs: PlanInputs, scenarios: Sequence[Scenario]) -> tuple[WhatIf, ...]:
    """The plan as forecast, then each scenario. Raises BadQuestionError for too many."""
    try:
        return compare(inputs, [Scenario(), *scenarios], open_work(), time.time())
    except CapacityError as error:
        raise _refused("scenario", "", str(error)) from None


def pools_of(plan: Plan, pools: Sequence[str], regions: Sequence[str]) -> list[PoolPlan]:
    """The pools of these names and regions; empty is all. Raises BadQuestionError: a name that is misspelt must not look idle."""
    for field, wanted, known in (
        ("pool", pools, {pool.pool for pool in plan.pools}),
        ("region", regions, {pool.assumptions.region for pool in plan.pools}),
    ):
        for name in wanted:
            if name not in known:
                raise BadQuestionError(field, name, f"is no {field} of the plan", f"Use {_listed(known)}")
    return [
        pool
        for pool in plan.pools
        if (not pools or pool.pool in pools) and (not regions or pool.assumptions.region in regions)
    ]


def planned_quarter(quarter: Quarter, level: float | None, growth_percent: float) -> Plan:
    """The plan of a quarter, or of what is left of it. Growth is per week, beyond the end of the forecasts.

    Raises BadQuestionError for a quarter that is over, or so far away that demand would grow without bounds until then.
    """
    start_s = max(quarter.start_s, this_hour_s())
    hours = (quarter.start_s + quarter.hours * HOUR_S - start_s) // HOUR_S
    if hours < 1:
        present = Quarter.at(start_s).name
        raise BadQuestionError("quarter", quarter.name, "is over", f"Choose {present} or a later one")
    try:
        return whole_plan(replace(plan_inputs(start_s, hours, level), growth_per_week=growth_percent / 100)).plan
    except CapacityError as error:
        raise _refused("growth", f"{growth_percent:g}", str(error)) from None


def quarter_of(text: str) -> Quarter:
    """Of `2027-Q1`; of "" the next quarter. Raises BadQuestionError."""
    if not text:
        return Quarter.at(int(time.time())).following
    try:
        return Quarter.parse(text)
    except ValueError as error:
        raise BadQuestionError("quarter", text, str(error), "Write 2027-Q1") from None


def _refused(field: str, value: str, text: str) -> BadQuestionError:
    """Of `what is wrong: what to do`."""
    what, _, remedy = text.partition(": ")
    return BadQuestionError(
        field, value, what.removeprefix(f"{value} "), remedy[:1].upper() + remedy[1:] or "Correct it"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none: the plan has no pool yet"
