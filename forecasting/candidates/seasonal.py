"""Candidates that repeat the day or the week."""

import numpy as np

from forecasting.calendar import DAY_S, WEEK_S
from forecasting.candidates.correction import corrected
from forecasting.candidates.history import NONE, History, Ints, known, targets
from forecasting.series import F64

NEWEST_WEIGHT = 0.3
"""The share of the newest period in a profile."""
_OUTLIER = 6.0
"""A value counts as at most so many times the median deviation of the period before it. A normal one reaches it once in 20,000."""
_LIMITS, _STEPS = 8, 24
"""How often that limit is taken anew within a period, and after how many steps at the soonest."""
_MIN_DEVIATIONS = 3
"""Deviations that a limit needs."""
_MIN_PERIODS = 3
"""A history that has them can do without a part of the first."""


def seasonal_day(history: History, origins: Ints, leads: Ints) -> F64:
    """The value at the same local time of the last known day."""
    return _naive(history, DAY_S, origins, leads)


def seasonal_week(history: History, origins: Ints, leads: Ints) -> F64:
    """The value at the same local time of the last known week."""
    return _naive(history, WEEK_S, origins, leads)


def profile_day(history: History, origins: Ints, leads: Ints) -> F64:
    """The mean of the last days at the same local time, newer ones weighing more, corrected by the newest errors."""
    return _profiled(history, DAY_S, origins, leads)


def profile_week(history: History, origins: Ints, leads: Ints) -> F64:
    """The mean of the last weeks at the same local time, newer ones weighing more, corrected by the newest errors."""
    return _profiled(history, WEEK_S, origins, leads)


def _naive(history: History, period_s: int, origins: Ints, leads: Ints) -> F64:
    earlier, values = history.earlier(period_s), history.extended()
    steps = known(targets(origins, leads), np.arange(len(values)), earlier, origins)
    while (gaps := (steps != NONE) & np.isnan(values[steps])).any():
        steps[gaps] = earlier[steps[gaps]]
    return np.where(steps == NONE, np.nan, values[steps])


def _profiled(history: History, period_s: int, origins: Ints, leads: Ints) -> F64:
    earlier = _from_half_a_period(history, period_s)
    means = profile(history.extended(), earlier)
    steps = known(targets(origins, leads), earlier, earlier, origins)
    base = np.where(steps == NONE, np.nan, means[steps])
    return corrected(history.series, means, base, origins, leads)


def _from_half_a_period(history: History, period_s: int) -> Ints:
    """`history.earlier`, as if the history began half a period more than some whole ones before its end.

    The mean of a step is that of the periods before it, and where demand drifts it depends on how many they are. Were these one more from
    the end on, as where a history is whole weeks long, no error before it would know of that.
    """
    earlier, period = history.earlier(period_s), period_s // history.series.step_s
    too_many = (history.steps - period // 2) % period
    return np.where(earlier < too_many, NONE, earlier) if history.steps >= _MIN_PERIODS * period else earlier


def profile(values: F64, earlier: Ints) -> F64:
    """For each step the exponentially weighted mean of the values whole periods before it; NaN where there are none.

    A value far from what the period before it was otherwise counts as a less distant one, so that one incident does not return
    every day. The mean of a step knows no value later than the one it ends with.
    """
    means, deviations = np.full(len(values), np.nan), np.full(len(values), np.nan)
    first = int(np.argmax(earlier != NONE))
    if earlier[first] == NONE:
        return means
    # Whatever a stretch of this length refers to lies before it.
    stretch = max(1, int((np.arange(len(values)) - earlier)[first:].min()))
    for start in range(first, len(values), stretch):
        before = earlier[start : start + stretch]
        mean, value = means[before], values[before]
        away = value - mean
        deviations[before] = np.abs(away)
        for part in np.array_split(np.arange(len(before)), min(_LIMITS, -(-len(before) // _STEPS))):
            known = deviations[max(0, before[part].min() - stretch) : before[part].min()]
            known = known[~np.isnan(known)]
            if len(known) >= _MIN_DEVIATIONS and (limit := _OUTLIER * float(np.median(known))) > 0:
                away[part] = np.clip(away[part], -limit, limit)
        newer = mean + NEWEST_WEIGHT * away
        means[start : start + stretch] = np.where(np.isnan(newer), np.where(np.isnan(mean), value, mean), newer)
    return means
