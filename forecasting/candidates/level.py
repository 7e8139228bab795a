"""Candidates that know no calendar: the last value, and a level with a trend."""

import numpy as np

from forecasting.calendar import DAY_S
from forecasting.candidates.history import History, Ints, last_known
from forecasting.series import F64

LEVEL_WEIGHTS = np.array([0.03, 0.1, 0.3, 0.7, 0.1, 0.3, 0.7])
TREND_WEIGHTS = np.array([0.0, 0.0, 0.0, 0.0, 0.01, 0.03, 0.1])
DAMPING = 0.95
"""The share of a trend that remains after a step: without damping, far leads run away (Gardner and McKenzie 1985)."""
_FORGETTING = 0.998
"""The weight of a past error, per step. The newest 500 steps decide which weights are used."""


def last_value(history: History, origins: Ints, leads: Ints) -> F64:
    """The last measured value, at every lead."""
    return np.repeat(last_known(history.series.values, origins)[:, None], len(leads), axis=1)


def last_day_peak(history: History, origins: Ints, leads: Ints) -> F64:
    """The highest value of the day before each origin, at every lead; NaN where that day was not measured."""
    values, day = history.series.values, max(1, DAY_S // history.series.step_s)
    peaks = [np.fmax.reduce(values[max(0, origin - day) : origin], initial=np.nan) for origin in origins]
    return np.repeat(np.array(peaks)[:, None], len(leads), axis=1)


def level_trend(history: History, origins: Ints, leads: Ints) -> F64:
    """Exponential smoothing with a damped trend (Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 8.2).

    Of a few fixed weights, each origin uses those with the smallest recent errors at lead 1.
    """
    levels, trends, best = _smoothed(history.series.values)
    chosen = best[origins]
    level, trend = levels[origins, chosen], trends[origins, chosen]
    damped = DAMPING * (1 - DAMPING**leads) / (1 - DAMPING)
    return np.maximum(level[:, None] + trend[:, None] * damped[None, :], 0.0)


def _smoothed(values: F64) -> tuple[F64, F64, Ints]:
    """Levels and trends by number of known steps and by weights, and which weights did best until then."""
    count = len(LEVEL_WEIGHTS)
    levels, trends = np.full((len(values) + 1, count), np.nan), np.zeros((len(values) + 1, count))
    best = np.zeros(len(values) + 1, dtype=np.int64)
    level, trend, errors = levels[0], trends[0], np.zeros(count)
    started = False
    for step, value in enumerate(values.tolist(), start=1):
        expected, trend = level + DAMPING * trend, DAMPING * trend
        if value != value:
            level = expected
        elif not started:
            level, started = np.full(count, value), True
        else:
            error = value - expected
            errors = _FORGETTING * errors + np.abs(error)
            level = expected + LEVEL_WEIGHTS * error
            trend = trend + TREND_WEIGHTS * error
        levels[step], trends[step], best[step] = level, trend, errors.argmin()
    return levels, trends, best
