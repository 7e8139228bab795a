"""Whatever demand looks like, there is a forecast with a reason: no traceback, no NaN, nothing below 0."""

import numpy as np
import pytest

from forecasting.calendar import DAY_S, Calendar
from forecasting.refresh import Limits, predict, refresh
from forecasting.series import F64, Series

STEP_S = 900
DAY = DAY_S // STEP_S
MARCH_2026 = 1772323200  # 1 March 2026, 00:00 UTC: clocks change in Europe on the 29th
WITHOUT_FITS = Limits(prophet=False)
NAN = float("nan")


def daily(days: int, peak: float = 100.0) -> F64:
    noise = np.random.default_rng(7).normal(0, 2, days * DAY)
    return np.maximum(peak * (1.2 + np.sin(2 * np.pi * np.arange(days * DAY) / DAY)) + noise, 0.0)


def with_outlier(values: F64) -> F64:
    values[-3 * DAY : -3 * DAY + 4] *= 10
    return values


def with_a_year_of_gaps(values: F64) -> F64:
    return np.concatenate([values, np.full(365 * DAY, NAN), values[: 2 * DAY]])


CASES = {
    "empty": np.zeros(0),
    "one point": np.array([5.0]),
    "one gap": np.array([NAN]),
    "gaps alone": np.full(3 * DAY, NAN),
    "nothing": np.zeros(10 * DAY),
    "constant": np.full(10 * DAY, 42.0),
    "negative": -daily(5),
    "partly negative": daily(5) - 100,
    "infinite": np.concatenate([daily(2), [np.inf, -np.inf, 1e308]]),
    "two points far apart": np.concatenate([[1.0], np.full(5 * DAY, NAN), [2.0]]),
    "outlier": with_outlier(daily(9)),
    "a year of gaps": with_a_year_of_gaps(daily(5)),
    "ends in a gap": np.concatenate([daily(5), np.full(DAY, NAN)]),
    "clocks change": daily(35),
    "tiny": daily(9, peak=1e-9),
    "huge": daily(9, peak=1e12),
}


@pytest.mark.parametrize("name", CASES)
def test_there_is_a_forecast_with_a_reason(name: str) -> None:
    series, calendar = Series(MARCH_2026, STEP_S, CASES[name]), Calendar("Europe/Berlin")
    for choice in refresh(series, calendar=calendar, limits=WITHOUT_FITS):
        forecast = predict(series, choice, calendar)
        if len(forecast):
            assert forecast.end_s - forecast.start_s >= choice.horizon_s
            assert forecast.quantiles[0.99].max() < 1e309
        else:
            assert name in ("empty", "one point", "one gap", "gaps alone", "negative", "two points far apart")
            assert forecast.reason.startswith("Nothing is forecast")
        assert forecast.reason.endswith(".")
