"""Corrects a forecast from the calendar by how it has been wrong of late."""

import numpy as np

from forecasting.calendar import DAY_S
from forecasting.candidates.history import Ints, filled
from forecasting.series import F64, Series

LAGS = 3
BIAS_DAYS = 3
"""The mean error of so many days is what demand that drifts away from its past keeps. Whole days, as errors differ by the hour."""
FLOOR = 0.1
"""Of the mean of what is known: how small values have to be for differences to count and not ratios, as nights without demand."""
MAX_CORRECTION = 3.0
"""A spike in an empty night does not multiply the next day."""
FITS = 16
"""How many times the origins of a backtest are fitted anew, evenly."""
_OUTLIER = 3.0
"""A jump of the error counts as at most so many times the one that only 1 % exceed."""
_MIN_JUMPS = 20
"""Errors that a fit needs: with fewer, nothing is corrected."""
_MAX_MEMORY = 0.999


def corrected(series: Series, usual: F64, base: F64, origins: Ints, leads: Ints) -> F64:
    """`base` (origins × leads) and what remains, at each lead, of the errors of `usual` before its origin.

    An error is the logarithm of (value + floor) / (usual + floor): where demand is twice the usual one in the morning, it is twice that
    at noon. Of the mean error of the newest BIAS_DAYS days that share remains which remained at the farthest lead in the past. How
    errors differ from it follows an autoregression of order LAGS. Both are fitted by least squares to what the origin knows
    (Box, Jenkins, Reinsel and Ljung, Time Series Analysis, 5.1: forecasts by iteration). `usual` holds one value per step,
    each known before the step. No correction is above MAX_CORRECTION times the largest of the newest LAGS differences, or what remains of
    the mean where that is more. Nothing is below 0.
    """
    values = series.values
    usual, base = np.maximum(usual[: len(values)], 0.0), np.maximum(base, 0.0)
    differences = _newest(np.abs(filled(values - usual)), origins)
    measured = ~np.isnan(values - usual)
    result = base.copy()
    for group in np.array_split(np.argsort(origins, kind="stable"), min(FITS, max(1, len(origins)))):
        first = origins[group[0]] if len(group) else 0
        floor = FLOOR * float(np.nanmean(values[:first])) if (~np.isnan(values[:first])).any() else 0.0
        if floor <= 0:
            continue
        errors = filled(np.log((values + floor) / (usual + floor)))
        away = errors - _before(errors)
        jumps = np.abs(away[:first][measured[:first] & ~np.isnan(away[:first])])
        if len(jumps) < _MIN_JUMPS:
            continue
        limit = _OUTLIER * float(np.quantile(jumps, 0.99))
        # A single outlier says little of what comes; a level that has changed is the usual one after two steps.
        tame = np.where(np.isnan(away), errors, errors - away + np.clip(away, -limit, limit))
        means = _means(tame, max(1, BIAS_DAYS * DAY_S // series.step_s))
        kept = means * kept_share(means[:first], tame[:first], int(leads.max()))
        weights, remains = fit((tame - kept[:-1])[:first]), kept[origins[group], None]
        around = _newest(tame, origins[group]) - remains
        moved = (base[group] + floor) * np.exp(_iterated(around, weights, leads) + remains) - floor - base[group]
        most = np.maximum(
            MAX_CORRECTION * differences[group].max(axis=1, keepdims=True),
            np.abs((base[group] + floor) * np.expm1(remains)),
        )
        result[group] = np.maximum(base[group] + np.clip(moved, -most, most), 0.0)
    return result


def _means(errors: F64, window: int) -> F64:
    """By number of known steps, the mean of the newest `window` errors; 0 where fewer than half of them are known."""
    ends = np.arange(len(errors) + 1)
    starts = np.maximum(ends - window, 0)
    sums = np.append(0.0, np.cumsum(np.nan_to_num(errors)))
    counts = np.append(0, np.cumsum(~np.isnan(errors)))
    known = counts[ends] - counts[starts]
    means: F64 = np.where(2 * known >= window, (sums[ends] - sums[starts]) / np.maximum(known, 1), 0.0)
    return means


def kept_share(means: F64, errors: F64, lead: int) -> float:
    """The share, 0 to 1, of the mean of errors that was left of it `lead` steps later."""
    earlier, later = means[: max(0, len(errors) - lead)], errors[lead:]
    both = ~np.isnan(later)
    squares = float(earlier[both] @ earlier[both])
    return min(1.0, max(0.0, float(earlier[both] @ later[both]) / squares)) if squares > 0 else 0.0


def _newest(errors: F64, origins: Ints) -> F64:
    """The last LAGS errors before each origin, newest first; 0 for what is not known."""
    latest = np.concatenate([np.zeros(LAGS), np.nan_to_num(errors)])
    newest: F64 = latest[origins[:, None] + LAGS - 1 - np.arange(LAGS)[None, :]]
    return newest


def fit(errors: F64) -> F64:
    """The weights of the last LAGS errors, newest first."""
    rows = np.lib.stride_tricks.sliding_window_view(errors, LAGS + 1)
    rows = rows[~np.isnan(rows).any(axis=1)]
    lags, target = rows[:, -2::-1], rows[:, -1]
    gram = lags.T @ lags
    ridge = 1e-3 * float(np.trace(gram)) / LAGS
    weights = np.linalg.solve(gram + (ridge + 1e-300) * np.eye(LAGS), lags.T @ target)
    return _stable(weights.astype(np.float64))


def _before(errors: F64) -> F64:
    """For each step the median of the three errors before it; NaN for the first three."""
    if len(errors) <= 3:
        return np.full(len(errors), np.nan)
    three = np.sort(np.lib.stride_tricks.sliding_window_view(errors, 3)[:-1], axis=1)
    return np.concatenate([np.full(3, np.nan), np.where(np.isnan(three[:, 2]), np.nan, three[:, 1])])


def _stable(weights: F64) -> F64:
    """The weights, with a memory that fades: an autoregression whose roots reach 1 would grow without bound."""
    companion = np.eye(LAGS, k=-1)
    companion[0] = weights
    radius = float(np.abs(np.linalg.eigvals(companion)).max())
    if radius <= _MAX_MEMORY:
        return weights
    shrunk: F64 = weights * (_MAX_MEMORY / radius) ** np.arange(1, LAGS + 1)
    return shrunk


def _iterated(lags: F64, weights: F64, leads: Ints) -> F64:
    """The expected error at each lead, one row per origin."""
    remains = np.empty((len(lags), len(leads)))
    state = lags
    for lead in range(1, int(leads.max()) + 1):
        expected = state @ weights
        state = np.concatenate([expected[:, None], state[:, :-1]], axis=1)
        remains[:, leads == lead] = expected[:, None]
    return remains
