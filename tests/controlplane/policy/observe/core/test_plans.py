"""The part of a warm plan that a tick gets."""

from dataclasses import replace

from controlplane.policy.observe.core.plans import pool_plan
from forecasting.capacity.warm_plan import warm_plans
from tests.support.capacity import MONDAY_S, STEP_S, demand, forecast, inputs, pool, steady


def test_it_begins_with_the_step_of_now_and_ends_where_the_forecast_ends() -> None:
    plan = inputs([demand(replace(forecast([2.0, 4.0, 8.0]), skill=0.3))], [pool()])
    part = pool_plan(warm_plans(plan)[0], plan, MONDAY_S + STEP_S + 10)
    assert part is not None
    assert part.start_ms == (MONDAY_S + STEP_S) * 1_000
    assert (part.warm, part.made_at_ms, part.skill, part.level) == ((2, 4), MONDAY_S * 1_000, 0.3, 0.5)


def test_a_forecast_that_is_over_is_not_handed_on() -> None:
    plan = inputs([demand(replace(forecast([2.0, 4.0, 8.0]), skill=0.3))], [pool()])
    [warm] = warm_plans(plan)
    last = pool_plan(warm, plan, MONDAY_S + 3 * STEP_S - 1)
    assert last is not None
    assert last.warm == (4,)
    assert pool_plan(warm, plan, MONDAY_S + 3 * STEP_S) is None


def test_the_skill_is_that_of_the_demand_by_its_size() -> None:
    large, small = replace(steady(30.0), skill=0.4), replace(steady(10.0), skill=None)
    plan = inputs([demand(large), demand(small, tier="batch")], [pool()])
    part = pool_plan(warm_plans(plan)[0], plan, MONDAY_S)
    assert part is not None
    assert part.skill is not None
    assert round(part.skill, 3) == 0.3


def test_without_a_forecast_or_a_capacity_there_is_none() -> None:
    nothing = inputs([], [pool()])
    assert pool_plan(warm_plans(nothing)[0], nothing, MONDAY_S) is None
    unknown = inputs([demand(steady(10.0))], [pool(capacities={})])
    assert pool_plan(warm_plans(unknown)[0], unknown, MONDAY_S) is None
