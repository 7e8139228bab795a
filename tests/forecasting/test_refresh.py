"""From demand to forecasts: choices that can be stored, and forecasts from them."""

import msgspec
import numpy as np

from forecasting.calendar import DAY_S
from forecasting.refresh import Choice, Limits, predict, refresh
from forecasting.series import Series

STEP_S = 600
DAY = DAY_S // STEP_S


def daily(days: int) -> Series:
    noise = np.random.default_rng(3).normal(0, 3, days * DAY)
    return Series(0, STEP_S, 100 + 50 * np.sin(2 * np.pi * np.arange(days * DAY) / DAY) + noise)


def test_a_choice_is_stored_and_brought_back() -> None:
    (choice,) = refresh(daily(6), horizons_s=(DAY_S,))
    again = msgspec.json.decode(msgspec.json.encode(choice), type=Choice)
    assert again == choice
    assert {score.candidate for score in again.scores} >= {"last_value", "profile_day", "prophet"}
    np.testing.assert_array_equal(predict(daily(6), again).median, predict(daily(6), choice).median)


def test_a_daily_load_is_forecast_by_its_day_and_its_peak_is_where_it_was() -> None:
    series = daily(10)
    (choice,) = refresh(series, horizons_s=(DAY_S,), limits=Limits(prophet=False))
    forecast = predict(series, choice)
    assert choice.candidate == "profile_day"
    assert choice.skill is not None
    assert choice.skill > 0.5
    assert abs(int(forecast.median.argmax()) - DAY // 4) < DAY // 12


def test_a_new_series_starts_on_last_value() -> None:
    (choice,) = refresh(daily(6).last(30), horizons_s=(DAY_S,))
    assert (choice.candidate, choice.skill) == ("last_value", None)
    assert choice.reason.startswith("Last value is used: the history is too short")
