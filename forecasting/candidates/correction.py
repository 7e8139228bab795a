"""Corrects a forecast from the calendar by how it has been wrong of late."""

import numpy as np

from forecasting.candidates.history import Ints, filled
from forecasting.series import F64

LAGS = 3
FITS = 16
"""How many times the origins of a backtest are fitted anew, evenly."""
_OUTLIER = 6.0
_FEWEST = 20
"""Errors that a fit needs: with fewer, nothing is corrected."""
_LONGEST_MEMORY = 0.999


def corrected(values: F64, usual: F64, base: F64, origins: Ints, leads: Ints) -> F64:
    """`base` (origins × leads) and what remains, at each lead, of the errors `values - usual` before its origin.

    The errors follow an autoregression of order LAGS, fitted by least squares to those that the origin knows
    (Box, Jenkins, Reinsel and Ljung, Time Series Analysis, 5.1: forecasts by iteration). `usual` holds one value per step,
    each known before the step. Nothing is below 0.
    """
    errors = values - usual[: len(values)]
    remains = np.zeros(base.shape)
    for group in np.array_split(np.argsort(origins, kind="stable"), min(FITS, max(1, len(origins)))):
        if not len(group):
            continue
        before = errors[: origins[group[0]]]
        weights, limit = fit(before)
        if limit > 0:
            latest = np.concatenate([np.zeros(LAGS), np.nan_to_num(filled(errors))])
            lags = latest[origins[group][:, None] + LAGS - 1 - np.arange(LAGS)[None, :]]
            remains[group] = _iterated(np.clip(lags, -limit, limit), weights, leads)
    return np.maximum(base + remains, 0.0)


def fit(errors: F64) -> tuple[F64, float]:
    """The weights of the last LAGS errors, newest first, and the size from which an error is an outlier; 0 where none fits."""
    measured = errors[~np.isnan(errors)]
    if len(measured) < _FEWEST:
        return np.zeros(LAGS), 0.0
    limit = _OUTLIER * float(np.median(np.abs(measured)))
    rows = np.lib.stride_tricks.sliding_window_view(np.clip(errors, -limit, limit), LAGS + 1)
    rows = rows[~np.isnan(rows).any(axis=1)]
    if limit == 0 or len(rows) < _FEWEST:
        return np.zeros(LAGS), 0.0
    lags, target = rows[:, -2::-1], rows[:, -1]
    gram = lags.T @ lags
    ridge = 1e-3 * float(np.trace(gram)) / LAGS
    weights = np.linalg.solve(gram + (ridge + 1e-300) * np.eye(LAGS), lags.T @ target)
    return _stable(weights.astype(np.float64)), limit


def _stable(weights: F64) -> F64:
    """The weights, with a memory that fades: an autoregression whose roots reach 1 would grow without bound."""
    companion = np.eye(LAGS, k=-1)
    companion[0] = weights
    radius = float(np.abs(np.linalg.eigvals(companion)).max())
    if radius <= _LONGEST_MEMORY:
        return weights
    shrunk: F64 = weights * (_LONGEST_MEMORY / radius) ** np.arange(1, LAGS + 1)
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
