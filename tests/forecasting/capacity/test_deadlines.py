from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.capacity.assumptions import ColdStart, GpuQuota, TokenMix
from forecasting.capacity.deadlines import OpenWork, WorkPlan, with_lines, work_plans
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.scenario import Scenario
from forecasting.capacity.what_if import compare
from forecasting.capacity.worksheet import worksheet
from forecasting.series import F64
from tests.support.capacity import HOUR_S, MONDAY_S, STEP_S, capacity, demand, forecast, inputs, pool, steady

PER_HOUR = HOUR_S // STEP_S


def by_hour(*requests_per_s: float) -> F64:
    return np.repeat(np.array(requests_per_s), PER_HOUR)


def planned(values: F64, *works: OpenWork, now_s: float = MONDAY_S, **changes: object) -> WorkPlan:
    """A replica carries 2 requests/s."""
    quotas = changes.pop("quotas", ())
    request = inputs([demand(forecast(values))], [pool(**changes)], quotas=quotas)
    [plan] = work_plans(request, works, now_s)
    return plan


def due(hours: float, lines: float) -> OpenWork:
    return OpenWork("chat", lines, MONDAY_S + hours * HOUR_S, TokenMix(500, 200))


def test_lines_fill_what_the_demand_leaves_and_add_nothing_where_that_is_enough() -> None:
    plan = planned(by_hour(1.5, 1.5, 1.5, 1.5), due(4, 0.5 * 2 * HOUR_S))
    assert not plan.added.any() and plan.late == (0.0,)
    assert plan.lines_per_s.tolist() == pytest.approx([0.5] * 2 * PER_HOUR + [0.0] * 2 * PER_HOUR)
    assert plan.busy.max() == pytest.approx(0.25)
    assert plan.ends_s == (MONDAY_S + 2 * HOUR_S,)
    assert plan.reason == "3,600 lines fit beside the demand, by 2026-11-23 02:00 UTC: none is added."


def test_replicas_are_added_in_the_hours_with_the_fewest_before_the_deadline() -> None:
    plan = planned(by_hour(6, 2, 2, 6, 2), due(4, 2 * HOUR_S * 1.5))
    assert plan.added.reshape(-1, PER_HOUR)[:, 0].tolist() == [0, 1, 1, 0, 0]
    assert plan.late == (0.0,) and plan.replica_hours == 2
    assert "up to 1 more in 2 h, from 2026-11-23 01:00 UTC on" in plan.reason


def test_the_replicas_more_cost_in_the_plan_in_what_ifs_and_on_the_worksheet() -> None:
    request = inputs([demand(forecast(by_hour(6, 2, 2, 6, 2)))], [pool()])
    work = [due(4, 2 * HOUR_S * 1.5)]
    plan = with_lines(make_plan(request), work_plans(request, work, MONDAY_S))
    [its], without = plan.pools, make_plan(request)
    assert its.lines.tolist() == [0, 1, 1, 0, 0]
    assert its.for_clients.tolist() == without.pools[0].replicas.tolist()
    assert (
        its.hour(1).reason.endswith("1 more for work that can wait.")
        and its.hour(0).reason == without.pools[0].hour(0).reason
    )
    assert plan.cost_usd - without.cost_usd == plan.lines_cost_usd == 2 * its.usd_per_gpu_hour > 0
    assert worksheet(plan).rows[-1].lines_cost_usd == plan.lines_cost_usd
    usual, none = compare(request, [Scenario(), Scenario(peak=0)], work, MONDAY_S)
    assert usual.totals is not None and none.totals is not None
    assert (usual.totals.cost_usd, usual.totals.lines_cost_usd) == (plan.cost_usd, plan.lines_cost_usd)
    assert usual.totals.peak_replicas == int(its.replicas.max())


def test_a_plan_that_begins_later_has_the_hours_that_are_left() -> None:
    request = inputs([demand(forecast(by_hour(6, 2, 2, 6, 2)))], [pool()])
    work = work_plans(request, [due(4, 2 * HOUR_S * 1.5)], MONDAY_S)
    later = make_plan(replace(request, start_s=MONDAY_S + 2 * HOUR_S, hours=2))
    assert with_lines(later, work).pools[0].lines.tolist() == [1, 0]


def test_the_earliest_deadline_goes_first() -> None:
    plan = planned(by_hour(1, 1, 1), due(3, HOUR_S), due(1, HOUR_S))
    assert plan.ends_s == (MONDAY_S + 2 * HOUR_S, MONDAY_S + HOUR_S)
    assert not plan.added.any()


def test_what_the_quota_leaves_no_replica_for_is_late() -> None:
    plan = planned(by_hour(2, 2), due(2, 3 * HOUR_S), quotas=(GpuQuota("eu", "H100", 1),))
    assert (plan.late, plan.ends_s, plan.is_sure) == ((3 * HOUR_S,), (None,), True)
    assert "would miss their deadline: the quota" in plan.reason
    assert planned(by_hour(2, 2), due(2, 3 * HOUR_S), quotas=(GpuQuota("eu", "H100", 2),)).late == (0.0,)


def test_a_replica_is_no_use_before_it_has_started() -> None:
    late = planned(by_hour(2, 2), due(1, 10), cold_start=ColdStart(HOUR_S, "ledger", 20))
    assert late.late == (10.0,) and not late.added.any()
    for now_s in range(MONDAY_S, MONDAY_S + HOUR_S, 50):  # it is asked for at each moment at which it has to be created
        plan = planned(by_hour(2, 2), due(2, 3 * HOUR_S), now_s=now_s, cold_start=ColdStart(600, "ledger", 20))
        assert plan.wanted_at(now_s) > 1
    [first, *_] = np.flatnonzero(planned(by_hour(2, 2), due(2, 10), cold_start=ColdStart(600, "ledger", 20)).added)
    assert first == 2


def test_a_replica_that_may_carry_more_than_was_measured_is_no_reason_to_add_one() -> None:
    plan = planned(by_hour(2, 2), due(1, 10), capacities={"H100": capacity(lower_bound=True)})
    assert not plan.added.any() and plan.late == (10.0,) and not plan.is_sure
    assert "a replica may carry more" in plan.reason


def test_long_lines_count_for_more_and_unknown_ones_are_said() -> None:
    twice = OpenWork("chat", HOUR_S / 2, MONDAY_S + 4 * HOUR_S, TokenMix(1000, 400))
    assert planned(by_hour(1, 1, 1, 1), twice).ends_s == (MONDAY_S + HOUR_S,)
    unknown = OpenWork("chat", HOUR_S / 2, MONDAY_S + 4 * HOUR_S)
    plan = planned(by_hour(1, 1, 1, 1), unknown, quotas=(GpuQuota("eu", "H100", 1),))
    assert plan.ends_s == (MONDAY_S + HOUR_S / 2,) and not plan.is_sure
    assert "Tokens of lines are not known yet" in plan.reason


@pytest.mark.parametrize("lacks", ["capacity", "forecast"])
def test_without_a_capacity_or_a_forecast_nothing_is_known_or_added(lacks: str) -> None:
    request = inputs(
        [demand(steady(2.0), model="other")] if lacks == "forecast" else [demand(steady(2.0))],
        [pool(capacities={}) if lacks == "capacity" else pool()],
        start_s=MONDAY_S,
        hours=2,
    )
    [plan] = work_plans(request, [due(2, 100)], MONDAY_S)
    assert not plan.is_known and plan.ends_s == (None,) and not plan.added.any()
    assert "is not known, and no replica is added" in plan.reason


def test_pools_share_the_lines_of_their_model_by_weight() -> None:
    pools = [pool(weight=75.0), pool("chat-us", region="us", weight=25.0), pool("large", model="large")]
    demands = [demand(steady(1.0, 4)), demand(steady(1.0, 4), region="us"), demand(steady(1.0, 4), model="large")]
    plans = work_plans(inputs(demands, pools), [due(4, 400)], MONDAY_S)
    assert {plan.pool: plan.lines for plan in plans} == {"chat-eu": 300, "chat-us": 100}


@given(
    st.lists(st.integers(0, 40).map(lambda half: half / 2), min_size=1, max_size=6),
    st.lists(st.tuples(st.floats(0.1, 8), st.floats(1, 200_000)), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_every_line_is_done_or_late_within_what_replicas_have_room_for(
    demands: list[float], works: list[tuple[float, float]], quota: int
) -> None:
    plan = planned(by_hour(*demands), *(due(*each) for each in works), quotas=(GpuQuota("eu", "H100", quota),))
    done = plan.lines_per_s.sum() * STEP_S
    open_at_the_end = sum(lines for hours, lines in works if hours > len(demands))
    assert done + plan.late_lines == pytest.approx(plan.lines, rel=1e-3, abs=open_at_the_end + 1e-3)
    there = np.ceil(by_hour(*demands) / 2 - 1e-9) + plan.added
    assert (by_hour(*demands) + plan.lines_per_s <= 2 * there + 1e-6).all()
    assert (plan.added == 0).all() or (there <= max(quota, there[plan.added == 0].max(initial=0))).all()
