import numpy as np
import pytest

from forecasting.capacity.assumptions import ColdStart
from forecasting.capacity.limits import spending_cap
from forecasting.capacity.warm_plan import WarmChange, warm_plans
from tests.support.capacity import MONDAY_S, STEP_S, demand, forecast, inputs, pool


def test_replicas_are_created_a_cold_start_and_a_margin_before_they_must_be_warm() -> None:
    values = np.array([2.0, 2.0, 2.0, 8.0, 8.0, 2.0] * 2)  # a replica carries 2 requests/s
    request = inputs([demand(forecast(values))], [pool(cold_start=ColdStart(400, "ledger", 20))], margin_s=100)
    [plan] = warm_plans(request)
    assert plan.horizon_s == 500
    assert plan.warm.tolist() == [1, 1, 1, 4, 4, 1] * 2
    assert plan.started.tolist() == [1, 4, 4, 4, 4, 1, 1, 4, 4, 4, 4, 1]
    rise_s = MONDAY_S + 3 * STEP_S
    assert list(plan.changes())[:3] == [
        WarmChange(MONDAY_S - 500, MONDAY_S, 1),
        WarmChange(rise_s - 500, rise_s, 4),
        WarmChange(rise_s + 2 * STEP_S, rise_s + 2 * STEP_S, 1),
    ]
    assert plan.reason == (
        "A cold start takes 400 s at P90, as measured over 20 starts. With a margin of 100 s, replicas are created 500 s ahead."
    )


def test_spare_replicas_and_the_floor_are_warm_too() -> None:
    values = np.repeat([0.0, 4.0], 6)
    [plan] = warm_plans(inputs([demand(forecast(values))], [pool(spare_replicas=1, warm_floor=2)]))
    assert plan.warm.tolist() == [2] * 6 + [3] * 6


def test_without_a_capacity_the_floor_is_warm_and_the_reason_says_so() -> None:
    [plan] = warm_plans(inputs([demand(forecast([50.0] * 12))], [pool(capacities={}, warm_floor=1)]))
    assert plan.warm.tolist() == [1] * 12
    assert plan.reason.startswith("What a replica of chat-8b carries on H100 is not known")


@pytest.mark.parametrize(("budget", "cap"), [(60.0, float("inf")), (40.0, 20.0), (12.0, 4.0), (0.0, 0.0)])
def test_a_spending_cap_cuts_the_dearest_hours_to_one_height(budget: float, cap: float) -> None:
    assert spending_cap(np.array([4.0, 40.0, 16.0]), budget) == cap


def test_a_replica_is_kept_while_a_little_more_demand_would_need_it() -> None:
    [plan] = warm_plans(inputs([demand(forecast([3.9, 3.5] * 6))], [pool(spare_replicas=1)]))
    assert plan.warm.tolist() == [3, 3] * 6
    assert plan.kept.tolist() == [4, 3] * 6
