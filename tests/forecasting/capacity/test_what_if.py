from datetime import UTC, datetime

import numpy as np
import pytest

from forecasting.capacity.assumptions import CapacityError
from forecasting.capacity.months import quarter_hours
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.scenario import AS_FORECAST, parse_scenario
from forecasting.capacity.what_if import compare
from forecasting.capacity.worksheet import worksheet
from tests.support.capacity import HOUR_S, MONDAY_S, capacity, demand, forecast, inputs, pool, steady


def test_scenarios_are_compared_side_by_side_and_a_bad_one_spoils_no_other() -> None:
    scenarios = [parse_scenario(text) for text in ("", "peak=2", "lost=mars")]
    plain, doubled, refused = compare(inputs([demand(steady(10, 2))]), scenarios)
    assert plain.totals is not None and doubled.totals is not None
    assert (plain.totals.peak_replicas, plain.totals.gpu_hours, plain.totals.cost_usd) == (5, 10.0, 40.0)
    assert (doubled.totals.peak_replicas, doubled.totals.peak_rps) == (10, 20.0)
    assert (doubled.totals.binding, doubled.totals.binding_share) == ("demand", 1.0)
    assert refused.plan is None and "lost is 'mars'" in refused.error


def test_a_plan_without_pools_has_totals_too() -> None:
    [alone] = compare(inputs([demand(steady(10, 2))], [pool()]), [parse_scenario("lost=eu")])
    assert alone.totals is not None and alone.totals.gpu_hours == 0
    assert alone.plan is not None and "There is no pool to plan for" in alone.plan.notes[0]


def test_a_demand_that_nobody_has_forecast_is_not_zero() -> None:
    start_s, hours = quarter_hours(2027, 1)
    pools = [pool(), pool("other", model="other")]
    known = demand(forecast(np.full(7 * 24, 10.0), step_s=HOUR_S, start_s=start_s))
    for demands, launch, peak, unforecast in (
        ([], "", None, 2),
        ([known], "", 10.0, 1),
        ([], "launch=other:3:2027-01-01", 3.0, 1),
    ):
        given = inputs(demands, pools, start_s=start_s, hours=hours)
        [planned] = compare(given, [parse_scenario(launch)])
        assert planned.totals is not None and planned.plan is not None
        assert (planned.totals.peak_rps, planned.totals.unforecast) == (peak, unforecast)
        total = worksheet(planned.plan).rows[-1]
        assert (total.peak_rps, total.unforecast, total.input_tokens is None) == (peak, unforecast, peak is None)
    [unknown] = make_plan(inputs([], [pool()], start_s=start_s, hours=1)).pools[0].hours()
    assert unknown.requests_per_s is None and "the demand is not known" in unknown.reason


def test_gpus_without_a_price_are_not_free() -> None:
    pools = [
        pool("here"),
        pool("cpu", gpus_per_replica=0, gpu="cpu"),
        pool("there", gpu="A100", region="us", capacities={"A100": capacity()}),
    ]
    given = inputs([demand(steady(10, 2))], pools, usd_per_gpu_hour={"H100": 4.0}, start_s=MONDAY_S, hours=1)
    plain, other = compare(given, [parse_scenario(text) for text in ("", "gpu=A100")])
    assert plain.totals is not None and other.totals is not None and plain.plan is not None
    assert (plain.totals.unpriced, other.totals.unpriced) == (1, 2)
    assert [row.unpriced for row in worksheet(plain.plan).rows if not row.month] == [0, 1, 1]


def test_too_many_scenarios_are_refused() -> None:
    with pytest.raises(CapacityError, match="scenario is given 9 times: compare at most 8"):
        compare(inputs([]), [AS_FORECAST] * 9)


def test_the_worksheet_of_a_quarter_adds_up_by_region_and_month() -> None:
    start_s, hours = quarter_hours(2026, 4)
    assert datetime.fromtimestamp(start_s, UTC) == datetime(2026, 10, 1, tzinfo=UTC)
    assert hours == 92 * 24
    week = forecast(np.full(7 * 24, 10.0), step_s=HOUR_S, start_s=start_s)
    tokens = forecast(np.full(7 * 24, 5_000.0), step_s=HOUR_S, start_s=start_s)
    measured = capacity(2.0, batching_factor=8.0, slots=16)
    pools = [pool(capacities={"H100": measured}), pool("b", region="us")]
    demands = [
        demand(
            week,
            input_tokens=tokens,
            output_tokens=tokens.__class__(
                start_s, HOUR_S, {k: v * 0.4 for k, v in tokens.quantiles.items()}, "", None, ""
            ),
        )
    ]
    sheet = worksheet(make_plan(inputs(demands, pools, start_s=start_s, hours=hours)))
    assert sheet.quarter == "2026-Q4"
    assert [(row.region, row.month) for row in sheet.rows] == [
        ("eu", "2026-10"), ("eu", "2026-11"), ("eu", "2026-12"),
        ("us", "2026-10"), ("us", "2026-11"), ("us", "2026-12"),
        ("eu", ""), ("us", ""), ("", ""),
    ]  # fmt: skip
    october, *_, total = sheet.rows
    assert (october.peak_rps, october.covered_hours, october.peak_replicas) == (10.0, 31 * 24, 5)
    assert october.input_tokens == pytest.approx(5_000 * 31 * 86_400)
    assert october.output_tokens == pytest.approx(2_000 * 31 * 86_400)
    assert october.batching_factor == pytest.approx(8.0)
    assert (total.gpu_hours, total.cost_usd) == (5 * 92 * 24, 20 * 92 * 24)
    assert total.gpu_hours == sum(row.gpu_hours for row in sheet.rows if row.month and row.region)
    idle = sheet.rows[3]
    assert (idle.peak_rps, idle.gpu_hours, idle.batching_factor) == (0.0, 0.0, None)


def test_the_last_quarter_ends_with_the_year_and_there_are_four() -> None:
    assert quarter_hours(2027, 1)[0] == sum(quarter_hours(2026, 4)[i] * (1, HOUR_S)[i] for i in (0, 1))
    with pytest.raises(ValueError, match="quarter is 5: give 1, 2, 3 or 4"):
        quarter_hours(2026, 5)
