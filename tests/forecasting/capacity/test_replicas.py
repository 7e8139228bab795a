"""From demand to replicas: what each assumption adds, and which one binds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.capacity.assumptions import CapacityError, ColdStart, Demand, GpuQuota, PoolAssumptions, TokenMix
from forecasting.capacity.plan import Plan
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.scenario import Scenario, parse_scenario
from forecasting.capacity.worksheet import worksheet
from tests.support.capacity import HOUR_S, MONDAY_S, STEP_S, capacity, demand, forecast, inputs, pool, steady
from tests.support.soak import sized


def only(plan: Plan) -> tuple[list[int], list[str]]:
    """Replicas and bindings of the plan's only pool."""
    [planned] = plan.pools
    hours = list(planned.hours())
    return [hour.replicas for hour in hours], [hour.binding for hour in hours]


def test_an_hour_has_the_replicas_that_its_highest_step_needs_and_no_other() -> None:
    values = np.full(24, 3.0)
    values[5] = 9.1  # requests/s; a replica carries 2
    replicas, binding = only(make_plan(inputs([demand(forecast(values))])))
    assert replicas == [5, 2]
    assert binding == ["demand", "demand"]
    assert only(make_plan(inputs([demand(steady(0.3, 1))], [pool(capacities={"H100": capacity(0.1)})])))[0] == [3]


def test_the_plan_is_for_the_level_wanted() -> None:
    request = inputs([demand(forecast([10.0] * 12, spread=1.0))], level=0.9)
    assert only(make_plan(request))[0] == [7]  # 14 requests/s
    assert only(make_plan(request, Scenario(level=0.5)))[0] == [5]
    assert make_plan(request, Scenario(level=0.5)).level == 0.5


def test_what_the_cache_answers_needs_no_replica() -> None:
    assert only(make_plan(inputs([demand(steady(10, 1), hit_rate=0.6)])))[0] == [2]
    assert only(make_plan(inputs([demand(steady(10, 1), hit_rate=0.6)]), Scenario(hit_rate=-10)))[0] == [3]
    assert only(make_plan(inputs([demand(steady(10, 1), hit_rate=0.6)]), Scenario(hit_rate=70)))[0] == [0]


def test_requests_with_more_tokens_need_more_replicas() -> None:
    half_prompt = [pool(capacities={"H100": capacity(input_share=0.5)})]
    twice_out = demand(steady(10, 1), input_tokens=steady(5_000, 1), output_tokens=steady(4_000, 1))
    assert only(make_plan(inputs([twice_out], half_prompt)))[0] == [8]  # work × 1.5
    assert only(make_plan(inputs([twice_out])))[0] == [10]  # share not known: × 2
    assert only(make_plan(inputs([demand(steady(10, 1))], half_prompt), Scenario(outputs=1.3)))[0] == [6]  # × 1.15


def test_replicas_are_there_before_they_are_needed() -> None:
    values = np.full(36, 2.0)
    values[24:] = 8.0  # from the third hour on
    request = inputs([demand(forecast(values))], [pool(cold_start=ColdStart(240, "ledger", 20))], margin_s=30)
    replicas, binding = only(make_plan(request))
    assert replicas == [1, 4, 4]
    assert binding == ["demand", "cold_start", "demand"]
    assert "a start takes 240 s" in make_plan(request).pools[0].hour(1).reason


def test_spare_replicas_come_on_top_and_a_floor_is_kept_below() -> None:
    values = np.repeat([0.0, 1.0, 5.0], 12)
    replicas, binding = only(make_plan(inputs([demand(forecast(values))], [pool(warm_floor=2, spare_replicas=1)])))
    assert replicas == [2, 2, 4]
    assert binding == ["warm_floor", "warm_floor", "demand"]


def test_a_pool_smaller_than_the_measured_one_has_room_for_bursts() -> None:
    measured = capacity(2.0, batching_factor=6.0, slots=8, measured_replicas=10)
    replicas, binding = only(make_plan(inputs([demand(steady(3.9, 1))], [pool(capacities={"H100": measured})])))
    assert replicas == [3]
    assert binding == ["queueing"]
    assert only(make_plan(inputs([demand(steady(39.9, 1))], [pool(capacities={"H100": measured})])))[0] == [20]


def test_a_quota_takes_spare_replicas_first_and_says_what_is_not_carried() -> None:
    pools = [pool("a", variant="v"), pool("b", model="other", spare_replicas=2)]
    demands = [demand(steady(12, 1)), demand(steady(8, 1), model="other")]

    def replicas(gpus: int) -> list[tuple[int, str, float]]:
        plan = make_plan(inputs(demands, pools, quotas=(GpuQuota("eu", "H100", gpus),)))
        return [(hour.replicas, hour.binding, round(hour.shortfall_rps, 6)) for p in plan.pools for hour in p.hours()]

    assert replicas(12) == [(6, "demand", 0), (6, "demand", 0)]
    assert replicas(11) == [(6, "demand", 0), (5, "gpu_quota", 0)]
    assert replicas(10) == [(6, "demand", 0), (4, "gpu_quota", 0)]
    assert replicas(5) == [(3, "gpu_quota", 6.0), (2, "gpu_quota", 4.0)]
    assert replicas(0) == [(0, "gpu_quota", 12.0), (0, "gpu_quota", 8.0)]


def test_a_quota_is_of_one_region_and_gpu_type() -> None:
    for quota in (GpuQuota("us", "H100", 0), GpuQuota("eu", "A100", 0)):
        assert only(make_plan(inputs([demand(steady(10, 1))], quotas=(quota,))))[0] == [5]


def test_a_pool_without_gpus_costs_nothing_and_gives_nothing_up() -> None:
    none = pool("vectors", model="vectors", gpus_per_replica=0, capacities={"H100": capacity(gpus_per_replica=0)})
    demands = [demand(steady(10, 1)), demand(steady(10, 1), model="vectors")]
    plan = make_plan(inputs(demands, [pool(), none], budget_usd_per_month=720.0, quotas=(GpuQuota("eu", "H100", 1),)))
    replicas = {each.pool: each.replicas.tolist() for each in plan.pools}
    assert replicas == {"chat-eu": [0], "vectors": [5]}
    assert (plan.gpu_hours, plan.cost_usd) == (0.0, 0.0)


def test_a_budget_cuts_the_dearest_hours() -> None:
    values = np.repeat([2.0, 20.0, 8.0], 12)  # 1, 10 and 4 replicas at 4 USD an hour
    november_hours = 30 * 24
    budget = 40.0 * november_hours / 3  # 40 USD for these three hours
    replicas, binding = only(make_plan(inputs([demand(forecast(values))], budget_usd_per_month=budget)))
    assert replicas == [1, 5, 4]
    assert binding == ["demand", "budget", "demand"]
    assert make_plan(inputs([demand(forecast(values))], budget_usd_per_month=budget)).cost_usd <= 40


def test_without_a_capacity_the_floor_is_kept_and_all_demand_is_uncertain() -> None:
    plan = make_plan(inputs([demand(steady(10, 1))], [pool(capacities={}, warm_floor=2)]))
    [hour] = plan.pools[0].hours()
    assert (hour.replicas, hour.binding, hour.shortfall_rps) == (2, "no_capacity", 10.0)
    assert "Enter its capacity" in hour.reason
    assert "Capacity of chat-8b on H100 is not known" in plan.pools[0].notes[0]


def test_demand_of_a_region_is_shared_by_the_weights_of_its_pools() -> None:
    pools = [pool("a", weight=100), pool("b", weight=300), pool("c", region="us")]
    plan = make_plan(inputs([demand(steady(16, 1))], pools))
    assert [p.requests_per_s.tolist() for p in plan.pools] == [[4.0], [12.0], [0.0]]


def test_the_demand_of_a_lost_region_goes_to_the_others() -> None:
    pools = [pool("a"), pool("b", region="us"), pool("c", region="ap")]
    plan = make_plan(inputs([demand(steady(16, 1)), demand(steady(2, 1), region="us")], pools), Scenario(lost=("eu",)))
    assert {p.pool: p.requests_per_s.tolist() for p in plan.pools} == {"b": [10.0], "c": [8.0]}


def test_a_launch_adds_to_its_model_from_its_day_on_and_one_without_demand_needs_replicas_too() -> None:
    plan = make_plan(inputs([demand(steady(2, 48))]), parse_scenario("launch=chat:6:2026-11-24"))
    assert plan.pools[0].replicas.tolist() == [1] * 24 + [4] * 24
    plan = make_plan(
        inputs([demand(steady(2, 1))], [pool(), pool("new", model="new")]), parse_scenario("launch=new:6:2026-01-01")
    )
    assert [p.replicas.tolist() for p in plan.pools] == [[1], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lost=mars", "lost is 'mars': use a region that has a pool, eu"),
        ("gpu=B200", "gpu is 'B200': use a type with a capacity or a price, A100, H100"),
        ("launch=other:5:2026-12-03", "launch is of 'other': use a model that has a pool, chat"),
    ],
)
def test_a_scenario_of_what_is_not_there_is_refused(text: str, message: str) -> None:
    with pytest.raises(CapacityError) as error:
        make_plan(inputs([demand(steady(1, 1))]), parse_scenario(text))
    assert message in str(error.value)


def test_another_gpu_has_its_own_capacity_price_and_size() -> None:
    pools = [pool(capacities={"H100": capacity(4), "A100": capacity(1, gpus_per_replica=2)})]
    plan = make_plan(inputs([demand(steady(8, 1))], pools), Scenario(gpu="A100"))
    [hour] = plan.pools[0].hours()
    assert (hour.replicas, hour.gpu_hours, hour.cost_usd) == (8, 16.0, 32.0)


def test_after_its_end_a_forecast_repeats_its_week_and_grows_or_stays_at_its_highest_value() -> None:
    values = np.arange(7 * 24, dtype=np.float64) + 2
    request = inputs([demand(forecast(values, step_s=HOUR_S))], hours=15 * 24, growth_per_week=0.1)
    planned = make_plan(request)
    rps = planned.pools[0].requests_per_s
    np.testing.assert_allclose(rps[168:336], values * 1.1)
    np.testing.assert_allclose(rps[336:], values[:24] * 1.21)
    assert "repeat their last whole week (or day, or stay at their highest value), +10 % each week" in planned.notes[0]
    [hours] = make_plan(inputs([demand(forecast([3.0, 9.0, 1.0], step_s=HOUR_S))], hours=6)).pools
    assert hours.requests_per_s.tolist() == [3, 9, 1, 9, 9, 9]


def test_a_demand_that_is_new_is_named_and_does_not_shorten_how_far_the_others_reach() -> None:
    known, new = steady(5.0, hours=7 * 24), steady(0.1, hours=2)
    plan = make_plan(inputs([demand(known), demand(new, tier="", region="")], hours=15 * 24))
    assert [note.split(". ")[0] for note in plan.notes] == [
        "Forecasts reach until 2026-11-30 00:00 UTC",
        "chat / no tier / no region: forecasts reach until 2026-11-23 02:00 UTC alone.",
    ]


def test_growth_without_bounds_is_refused_and_never_a_small_plan() -> None:
    far = MONDAY_S + 260 * 7 * 24 * HOUR_S
    request = inputs([demand(steady(5.0, hours=7 * 24))], start_s=far, hours=24, growth_per_week=0.5)
    with pytest.raises(CapacityError, match="within 260 weeks: choose less growth, or an earlier time"):
        make_plan(request)
    request = inputs([demand(steady(5.0, hours=7 * 24))], start_s=far, hours=24, growth_per_week=-0.5)
    assert make_plan(request).pools[0].replicas.min() >= 0


def test_every_row_names_who_forecast_with_which_skill_and_out_of_how_much() -> None:
    large = replace(steady(30.0), candidate="profile_week", skill=0.4)
    small = replace(steady(10.0), candidate="seasonal_day", skill=None)
    demands = [demand(large, history_s=28 * 86_400.0), demand(small, tier="batch", history_s=5 * 86_400.0)]
    plan = make_plan(inputs(demands, [pool(), pool("other", model="other")], hours=24))
    basis, none = (each.basis for each in plan.pools)
    assert (basis.forecaster, basis.history_days) == ("profile_week, seasonal_day", 5)
    assert basis.skill == pytest.approx(0.3)
    assert (none.forecaster, none.skill, none.history_days) == ("", None, None)
    assert {(row.region, row.basis.forecaster) for row in worksheet(plan).rows} == {
        ("eu", basis.forecaster),
        ("", basis.forecaster),
    }


def test_what_is_missing_is_said() -> None:
    assert make_plan(inputs([])).notes == (
        "There is no forecast of demand yet: the plan keeps every pool at its warm floor.",
    )
    [note] = make_plan(inputs([demand(steady(3, 1), model="lonely")])).notes
    assert note == "No pool serves lonely, which has 3 requests/s at its peak: add a pool."
    entered = pool(cold_start=ColdStart(90, "entered"), capacities={"H100": capacity(source="entered", mix=None)})
    notes = make_plan(inputs([demand(steady(3, 1))], [entered], usd_per_gpu_hour={})).pools[0].notes
    assert [note.split(":")[0].split(" was")[0] for note in notes] == [
        "H100 has no price",
        "The cold start of 90 s",
        "The capacity of 2 requests/s a replica",
        "With which tokens per request the capacity holds is not known",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: capacity(0), "requests_per_s is 0: give a number above 0"),
        (lambda: capacity(float("nan")), "requests_per_s is nan"),
        (lambda: TokenMix(-1, 5), "input_tokens is -1: give a number above 0"),
        (
            lambda: demand(steady(1, 1), hit_rate=1.2),
            "chat / standard / eu: hit_rate is 1.2: give a number 0 or more, and at most 1",
        ),
        (lambda: inputs([], [pool(), pool()]), "pools has chat-eu more than once"),
        (lambda: inputs([], hours=0), "hours is 0: give a number 1 or more"),
        (lambda: pool(warm_floor=-1), "chat-eu: warm_floor is -1"),
        (lambda: GpuQuota("eu", "H100", -3), "quota of H100 in eu is -3"),
    ],
)
def test_an_assumption_that_cannot_be_is_answered_with_field_value_and_remedy(make: object, message: str) -> None:
    with pytest.raises(CapacityError) as error:
        make()  # type: ignore[operator]
    assert message in str(error.value)


RATES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=40)


@st.composite
def any_inputs(draw: st.DrawFn) -> tuple[list[Demand], list[PoolAssumptions], float | None, int | None]:
    regions = st.sampled_from(("eu", "us"))
    demands = [
        demand(
            forecast(draw(RATES), step_s=draw(st.sampled_from((300, 700, 3600))), spread=draw(st.floats(0, 2))),
            region=draw(regions),
            tier=f"t{number}",
            hit_rate=draw(st.floats(0, 1)),
            output_tokens=draw(st.none() | RATES.map(lambda values: forecast(values))),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    pools = [
        pool(
            f"p{number}",
            region=draw(regions),
            weight=draw(st.sampled_from((0.0, 1.0, 100.0))),
            warm_floor=draw(st.integers(0, 3)),
            spare_replicas=draw(st.integers(0, 2)),
            cold_start=ColdStart(draw(st.floats(0, 20_000)), "entered"),
            capacities=draw(
                st.sampled_from(
                    (
                        {},
                        {"H100": capacity(0.5)},
                        {"H100": capacity(7, batching_factor=20.0, slots=16, measured_replicas=4)},
                    )
                )
            ),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    return demands, pools, draw(st.none() | st.floats(0, 1e6)), draw(st.none() | st.integers(0, 50))


@settings(max_examples=sized(25, soak=300), deadline=None)
@given(any_inputs())
def test_any_demand_has_a_plan_within_its_limits_and_with_reasons(
    case: tuple[list[Demand], list[PoolAssumptions], float | None, int | None],
) -> None:
    demands, pools, budget, quota = case
    quotas = () if quota is None else (GpuQuota("eu", "H100", quota),)
    request = inputs(demands, [], budget_usd_per_month=budget, quotas=quotas)
    plan = make_plan(type(request)(**{**{f: getattr(request, f) for f in request.__slots__}, "pools": tuple(pools)}))
    for planned in plan.pools:
        assert (planned.replicas >= 0).all()
        assert (planned.replicas <= planned.wanted).all()
        for values in (planned.requests_per_s, planned.cost_usd, planned.shortfall_rps, planned.output_tokens_per_s):
            assert np.isfinite(values).all()
        kept = planned.replicas >= planned.demand_replicas
        if planned.capacity is not None:
            assert (planned.shortfall_rps[kept] == 0).all()
        assert all(hour.reason.endswith(".") for hour in list(planned.hours())[:50])
    if quota is not None:
        here = [p.gpu_hours for p in plan.pools if p.assumptions.region == "eu"]
        assert not here or (np.sum(here, axis=0) <= quota).all()
    if budget is not None and plan.hours <= 28 * 24:
        assert plan.cost_usd <= budget + 1e-6


def test_steps_that_do_not_divide_an_hour_are_planned_in_steps_that_do() -> None:
    values = np.concatenate([np.full(5, 2.0), np.full(5, 10.0)])  # 700 s each: 3,500 s, then more
    planned = make_plan(inputs([demand(forecast(values, step_s=700))])).pools[0]
    assert planned.replicas.tolist() == [5, 5]
    assert planned.start_s == MONDAY_S and STEP_S == 300
