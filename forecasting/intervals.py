"""Bands from a forecaster's own recent errors, so that a P90 is above what comes nine times in ten."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from forecasting.candidates.history import Ints
from forecasting.forecast import LEVELS
from forecasting.series import F64

FEWEST_ERRORS = 20
"""Errors at a lead that make a band of their own."""
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


def calibrated(expected: F64, actual: F64, leads: Ints) -> Band:
    """The band that the errors of a backtest (both origins × leads, NaN where there is none) would have needed.

    Split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018, section 2.2): the quantile of n errors is taken
    at level · (n + 1) / n. Errors are absolute or relative to the forecast, whichever loses less.
    """
    errors = actual - expected
    enough = (~np.isnan(errors)).sum(axis=0) >= FEWEST_ERRORS
    if not enough.any():
        return Band.guess()
    levels = actual[~np.isnan(actual)]
    floor = 0.1 * float(levels.mean()) if len(levels) else 0.0
    bands = [Band(tuple(leads[enough].tolist()), _quantiles(errors[:, enough]), False, 0.0, True)]
    if floor > 0:
        relative = errors[:, enough] / (expected[:, enough] + floor)
        bands.append(Band(tuple(leads[enough].tolist()), _quantiles(relative), True, floor, True))
    return min(bands, key=lambda band: float(np.nanmean(pinball(actual, band.around(expected, leads)))))


def pinball(actual: F64, quantiles: F64) -> F64:
    """The mean pinball loss over LEVELS of quantiles (levels × …) of what came; NaN where either is.

    Koenker and Bassett (1978): level · (y - q) where y is above q, (1 - level) · (q - y) where it is below.
    """
    level = np.array(LEVELS).reshape(-1, *[1] * actual.ndim)
    above = actual[None] - quantiles
    loss: F64 = np.maximum(level * above, (level - 1) * above).mean(axis=0)
    return loss


def _quantiles(errors: F64) -> tuple[tuple[float, ...], ...]:
    """Leads × LEVELS."""
    rows = []
    for column in errors.T:
        known = np.sort(column[~np.isnan(column)])
        # A low level is the high one of the mirrored errors.
        widened = [0.5 + (level - 0.5) * (len(known) + 1) / len(known) for level in LEVELS]
        rows.append(tuple(float(value) for value in np.quantile(known, np.clip(widened, 0.0, 1.0))))
    return tuple(rows)
