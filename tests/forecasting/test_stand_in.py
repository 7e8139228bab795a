"""What forecasts where no candidate has earned its use: never flat beyond two hours, and said where it is no forecast."""

import numpy as np
import pytest

from forecasting.calendar import DAY_S, HOUR_S, WEEK_S, Calendar
from forecasting.candidates.history import History
from forecasting.capacity.replicas import make_plan
from forecasting.refresh import Limits, predict, refresh, unchosen
from forecasting.series import F64
from forecasting.stand_in import stand_ins
from tests.support.capacity import capacity, demand, inputs, pool
from tests.support.forecasting.made_up_demand import DAY, daily, series

WITHOUT_FITS = Limits(prophet=False)
HOUR = DAY // 24


@pytest.mark.parametrize(
    ("days", "horizon_s", "names"),
    [
        (30, 2 * HOUR_S, "last_value"),
        (30, 3 * HOUR_S, "seasonal_day last_day_peak"),
        (30, WEEK_S, "seasonal_week seasonal_day last_day_peak"),
        (6, WEEK_S, "seasonal_day last_day_peak"),
        (0.5, DAY_S, "last_day_peak"),
    ],
)
def test_the_longest_season_that_history_carries_stands_in(days: float, horizon_s: int, names: str) -> None:
    assert stand_ins(History(series(daily(days)), Calendar(), 6), horizon_s) == tuple(names.split())


def made_at(values: F64, horizon_s: int = WEEK_S) -> tuple[str, F64]:
    (choice,) = refresh(series(values), (horizon_s,), limits=WITHOUT_FITS)
    forecast = predict(series(values), choice)
    return forecast.candidate, forecast.median


@pytest.mark.parametrize("days", [1.5, 5, 10, 16])
def test_a_quarter_costs_the_same_at_night_and_at_noon(days: float) -> None:
    costs = []
    for hour in (2, 14):
        known = series(daily(days)[: round(days // 1 * DAY) + hour * HOUR])
        (choice,) = refresh(known, (WEEK_S,), limits=WITHOUT_FITS)
        planned = inputs(
            [demand(predict(known, choice))], [pool(capacities={"H100": capacity(2.0)})], hours=91 * 24, level=0.9
        )
        costs.append(make_plan(planned).cost_usd)
    assert costs[0] == pytest.approx(costs[1], rel=0.05)


def test_a_week_of_history_is_repeated_until_more_can_be_compared() -> None:
    week = np.concatenate([daily(5), daily(2) * 0.3])
    name, median = made_at(np.concatenate([week, week[: 2 * DAY]]))
    assert name == "seasonal_week"
    by_day = median.reshape(7, 24).mean(axis=1)
    assert by_day[[0, 1, 2, 5, 6]].min() > 90
    assert by_day[3:5].max() < 40


def test_what_a_season_does_not_know_is_filled_by_a_shorter_one() -> None:
    values = daily(8)
    values[2 * DAY : 3 * DAY] = np.nan
    name, median = made_at(values)
    assert name == "seasonal_week"
    assert np.ptp(median[24:48]) > 80


def test_before_a_day_was_measured_its_peak_is_planned_for_and_that_is_said() -> None:
    known = series(daily(0.5))
    (choice,) = refresh(known, (DAY_S,), limits=WITHOUT_FITS)
    forecast = predict(known, choice)
    assert (forecast.candidate, forecast.skill) == ("last_day_peak", None)
    for level in (0.5, 0.9, 0.99):
        np.testing.assert_array_equal(forecast.quantiles[level], np.full(DAY, known.values.max()))
    assert forecast.reason == (
        "No forecast beyond 2 hours: a day of demand is needed, and there are 12 hours. Their highest value is assumed throughout."
    )
    assert f"chat / standard / eu: {forecast.reason}" in make_plan(inputs([demand(forecast)], hours=200)).notes


def test_a_comparison_that_failed_leaves_the_season_too() -> None:
    known = series(daily(3))
    why = "the candidates could not be compared (it took too long)"
    choice = unchosen(known, DAY_S, Calendar(), why)
    assert (choice.candidate, choice.reason) == ("seasonal_day", f"Seasonal day is used: {why}.")
    np.testing.assert_array_equal(predict(known, choice).median, known.values[-DAY:])
