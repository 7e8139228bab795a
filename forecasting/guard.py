"""The guard of a choice: the baseline stands in while what was chosen is more wrong than it was in its backtest."""

from dataclasses import dataclass

import numpy as np

from forecasting.backtest import Backtest
from forecasting.candidates.history import History, Ints
from forecasting.intervals import Band
from forecasting.series import F64

NEWEST = 6
"""How many of the newest known errors at the horizon are compared with those of the backtest."""
USUAL = 0.9
"""The quantile of the backtest's errors that the mean of the newest may reach TIMES over."""
TIMES = 1.5
TOO_HIGH = 3.0
"""A forecast that is at most so much above what came, as a share of that, is not too high. As a share of the forecast no such error is
above 1: where forecasts are often far too low, it would pass for usual.
"""


@dataclass(frozen=True, slots=True)
class Guard:
    """`limit` is the largest usual error, as a share of (forecast + `floor`), and `too_high` of what a forecast is too high by, as a
    share of (what came + `floor`); None in what an older version has stored. `band` is that of the baseline.
    """

    limit: float
    floor: float
    band: Band
    too_high: float | None = None

    def trips(self, expected: F64, actual: F64) -> bool:
        """Whether the newest errors at the horizon are larger than usual: what the backtest showed may no longer hold."""
        errors = _errors(expected, actual, self.floor)
        known = ~np.isnan(errors)
        if not known.any():
            return False
        above = _above(expected, actual, self.floor)
        too_high = self.too_high is not None and float(above[~np.isnan(above)].mean()) > self.too_high
        return too_high or float(errors[known].mean()) > self.limit


def outgrown(said: float, came: F64) -> bool:
    """Whether all that `came` is above what was `said` of it by more than a forecast may be too high."""
    known = came[~np.isnan(came)]
    return 2 * len(known) > len(came) and float(known.min()) > (1 + TOO_HIGH) * said


def newest(history: History) -> Ints:
    """The NEWEST last origins whose horizon is over; none where the history is shorter."""
    last = history.steps - history.ahead
    return np.arange(max(1, last - NEWEST + 1), last + 1, dtype=np.int64)


def guard(backtest: Backtest, candidate: str, band: Band) -> Guard | None:
    """The guard of a candidate after its backtest; None where no error at the horizon is known. `band` is that of the baseline."""
    measured = ~np.isnan(backtest.actual)
    if not measured.any():
        return None
    floor = 0.1 * float(backtest.actual[measured].mean())
    errors, above = (
        each[~np.isnan(each)]
        for each in (of(backtest.expected[candidate][:, -1], backtest.actual[:, -1], floor) for of in (_errors, _above))
    )
    if not len(errors):
        return None
    too_high = max(TOO_HIGH, TIMES * float(np.quantile(above, USUAL)))
    return Guard(TIMES * float(np.quantile(errors, USUAL)), floor, band, too_high)


def _errors(expected: F64, actual: F64, floor: float) -> F64:
    return _shares(np.abs(actual - expected), expected + floor)


def _above(expected: F64, actual: F64, floor: float) -> F64:
    return _shares(np.maximum(expected - actual, 0.0), actual + floor)


def _shares(errors: F64, scale: F64) -> F64:
    shares: F64 = np.divide(errors, scale, out=np.full(len(scale), np.nan), where=scale > 0)
    return shares
