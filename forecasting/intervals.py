"""Bands from a forecaster's own recent errors, so that a P90 is above what comes nine times in ten."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
import numpy.typing as npt

from forecasting.candidates.history import Ints
from forecasting.forecast import LEVELS
from forecasting.series import F64

MIN_ERRORS = 20
"""Errors at a lead that make a band of their own."""
_HALF_LIFE = 1 / 3
"""The age at which an error weighs half of the newest, as a share of the backtest."""
_ADAPTS = 5.0
"""By how much the levels would move in a backtest in which they were always exceeded."""
_REPLAYS = 40
_LEVELS = np.array(LEVELS)
_NORMAL = NormalDist()
_GUESS = {0.05: -0.6, 0.1: -0.5, 0.5: 0.0, 0.9: 0.6, 0.95: 0.9, 0.99: 1.5}
"""The band as shares of the forecast while too few errors are known."""


@dataclass(frozen=True, slots=True)
class Band:
    """How far each quantile is from the forecast: `offsets[i][j]` at lead `leads[i]` and level `LEVELS[j]`.

    A `relative` offset is a multiple of (forecast + `floor`), an absolute one is in the forecast's unit.
    `measured` is false while it is a guess.
    """

    leads: tuple[int, ...]
    offsets: tuple[tuple[float, ...], ...]
    relative: bool
    floor: float
    measured: bool

    @classmethod
    def guess(cls) -> Self:
        return cls((1,), (tuple(_GUESS[level] for level in LEVELS),), relative=True, floor=0.0, measured=False)

    @classmethod
    def none(cls) -> Self:
        """Every quantile is the forecast itself."""
        return cls((1,), ((0.0,) * len(LEVELS),), relative=False, floor=0.0, measured=False)

    def around(self, expected: F64, leads: Ints) -> F64:
        """The quantiles of `expected` (origins × leads), as levels × origins × leads: 0 or more, and never crossing."""
        offsets = self._offsets(leads)
        scale = expected + self.floor if self.relative else np.ones(expected.shape)
        table = np.maximum(expected[None] + offsets[:, None, :] * scale[None], 0.0)
        middle = LEVELS.index(0.5)
        table[middle] = np.maximum(expected, 0.0)
        table[: middle + 1] = np.minimum.accumulate(table[middle::-1], axis=0)[::-1]
        table[middle:] = np.maximum.accumulate(table[middle:], axis=0)
        return table

    def _offsets(self, leads: Ints) -> F64:
        """Levels × leads: linear between the measured leads, and growing with the root of the lead beyond the last."""
        rows = np.array(self.offsets)
        beyond = np.sqrt(np.maximum(leads / self.leads[-1], 1.0)) if self.measured else np.ones(len(leads))
        return np.stack([np.interp(leads, self.leads, row) * beyond for row in rows.T])


def calibrated(expected: F64, actual: F64, origins: Ints, leads: Ints, adapted: bool = False) -> Band:
    """The band that the errors of a backtest (`expected` and `actual`: origins × leads, NaN where there is none) call for.

    Split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018, section 2.2), with newer errors
    weighing more (Barber, Candès, Ramdas and Tibshirani 2023, section 3). Errors at a lead of several steps overlap, so only
    those that do not are counted. `adapted` also raises each level by as much as it was exceeded too often of late. Errors are
    absolute or relative to the forecast, whichever loses less.
    """
    errors = actual - expected
    enough = (~np.isnan(errors)).sum(axis=0) >= MIN_ERRORS
    if not enough.any():
        return Band.guess()
    floor = 0.1 * float(np.nanmean(actual))
    bands = [_band(errors, origins, leads, enough, 0.0)]
    if floor > 0:
        bands.append(_band(errors / (expected + floor), origins, leads, enough, floor))
    best = min(bands, key=lambda band: float(np.nanmean(pinball(actual, band.around(expected, leads)))))
    if not adapted:
        return best
    return _band(errors / (expected + floor) if best.relative else errors, origins, leads, enough, best.floor, adapted)


def pinball(actual: F64, quantiles: F64) -> F64:
    """The mean pinball loss over LEVELS of quantiles (levels × …) of what came; NaN where either is.

    Koenker and Bassett (1978): level · (y - q) where y is above q, (1 - level) · (q - y) where it is below.
    """
    level = _LEVELS.reshape(-1, *[1] * actual.ndim)
    above = actual[None] - quantiles
    loss: F64 = np.maximum(level * above, (level - 1) * above).mean(axis=0)
    return loss


def _band(
    errors: F64, origins: Ints, leads: Ints, enough: npt.NDArray[np.bool_], floor: float, adapted: bool = False
) -> Band:
    """The band of errors that are already relative, where `floor` is above 0."""
    rows = []
    for lead, column in zip(leads[enough].tolist(), errors[:, enough].T, strict=True):
        shift = _shift(column, origins, lead) if adapted else np.zeros(len(LEVELS))
        rows.append(tuple(_quantiles(column, origins, lead, _LEVELS + shift).tolist()))
    return Band(tuple(leads[enough].tolist()), tuple(rows), floor > 0, floor, measured=True)


def _quantiles(errors: F64, origins: Ints, lead: int, levels: F64) -> F64:
    """The quantiles of the errors at one lead: the newest weigh most, and few errors make a wide band.

    The outermost of n independent errors is exceeded once in n + 1 times. A level beyond it follows the tail of a normal distribution.
    """
    weights, independent, apart = _weights(errors, origins, lead)
    order = np.argsort(errors)[: int((weights > 0).sum())]
    shares = np.cumsum(weights[order])
    # A low level is the high one of the mirrored errors: there the rank is rounded down, and here up.
    widened = np.clip(0.5 + (levels - 0.5) * (independent + 1) / independent, 0.0, 1.0) * shares[-1]
    high = np.searchsorted(shares, widened * (1 - 1e-12), side="left")
    quantiles: F64 = errors[order[np.minimum(high, len(order) - 1)]]
    median = errors[order[min(int(np.searchsorted(shares, 0.5 * shares[-1])), len(order) - 1)]]
    outermost = max(len(order) / (len(order) + apart), 2 / 3)
    beyond = _deviations(levels) / _deviations(np.array([outermost]))
    stretched: F64 = median + (quantiles - median) * np.maximum(beyond, 1.0)
    return stretched


def _deviations(levels: F64) -> F64:
    """How many standard deviations each quantile of a normal distribution is from its median."""
    return np.array([abs(_NORMAL.inv_cdf(min(max(level, 1e-4), 1 - 1e-4))) for level in levels.tolist()])


def _weights(errors: F64, origins: Ints, lead: int) -> tuple[F64, float, float]:
    """The weight of each error, 0 for a gap; how many errors that do not overlap they amount to; and how many overlap."""
    age = (origins[-1] - origins) / max(1, origins[-1] - origins[0])
    weights: F64 = np.where(np.isnan(errors), 0.0, 0.5 ** (age / _HALF_LIFE))
    apart = max(1.0, lead / float(np.median(np.diff(origins)))) if len(origins) > 1 else 1.0
    return weights, max(1.0, float(weights.sum() ** 2 / (weights**2).sum()) / apart), apart


def _shift(errors: F64, origins: Ints, lead: int) -> F64:
    """How much each level has to be raised to be exceeded as often as it should, from a replay of the backtest.

    Adaptive conformal inference (Gibbs and Candès 2021, equation 2): after each error that becomes known, the level moves by
    `step · (exceeded - expected)`. Nothing moves while too few errors are independent: it would follow chance.
    """
    shift, used = np.zeros(len(LEVELS)), np.full((len(errors), len(LEVELS)), np.nan)
    if _weights(errors, origins, lead)[1] < MIN_ERRORS:
        return shift
    step, seen = _ADAPTS / len(errors), 0
    furthest = np.minimum(_LEVELS, 1 - _LEVELS)
    for rows in [*np.array_split(np.arange(len(errors)), _REPLAYS), np.array([], dtype=np.int64)]:
        known = int(np.searchsorted(origins, origins[rows[0]] - lead, side="right")) if len(rows) else len(errors)
        new, bounds = errors[seen:known, None], used[seen:known]
        exceeded = np.where(np.isnan(new) | np.isnan(bounds), 1 - _LEVELS, new > bounds)
        shift = np.clip(shift + step * (exceeded - (1 - _LEVELS)).sum(axis=0), -furthest, furthest)
        seen = known
        if len(rows) and (~np.isnan(errors[:known])).sum() >= MIN_ERRORS:
            used[rows] = _quantiles(errors[:known], origins[:known], lead, _LEVELS + shift)
    return shift
