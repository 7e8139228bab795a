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


@dataclass(frozen=True, slots=True)
class Guard:
    """`limit` is the largest usual error, as a share of (forecast + `floor`). `band` is that of the baseline."""

    limit: float
    floor: float
    band: Band

    def trips(self, expected: F64, actual: F64) -> bool:
        """Whether the newest errors at the horizon are larger than usual: what the backtest showed may no longer hold."""
        errors = _errors(expected, actual, self.floor)
        known = ~np.isnan(errors)
        return bool(known.any()) and float(errors[known].mean()) > self.limit


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
    errors = _errors(backtest.expected[candidate][:, -1], backtest.actual[:, -1], floor)
    errors = errors[~np.isnan(errors)]
    return Guard(TIMES * float(np.quantile(errors, USUAL)), floor, band) if len(errors) else None


def _errors(expected: F64, actual: F64, floor: float) -> F64:
    scale = expected + floor
    shares: F64 = np.divide(np.abs(actual - expected), scale, out=np.full(len(scale), np.nan), where=scale > 0)
    return shares
