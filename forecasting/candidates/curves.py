"""The candidate "prophet": forecasts from curves that were fitted before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.candidates.correction import corrected
from forecasting.candidates.history import History, Ints, targets
from forecasting.series import F64

PROPHET, PROPHET_AND_WEEK = FITTED = ("prophet", "prophet_and_profile_week")
"""The names of the candidates that need a curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What one fit expects: `values[i]` covers the time from `start_s + i * step_s`. It knows nothing from `fitted_s` on."""

    fitted_s: int
    start_s: int
    step_s: int
    values: tuple[float, ...]

    def at(self, times_s: Ints, step_s: int) -> F64:
        """The curve at the middle of each step of `step_s`, linear between its points; NaN outside of it."""
        middles = np.arange(len(self.values)) * self.step_s + self.start_s + self.step_s / 2
        at_s = times_s + step_s / 2
        values: F64 = np.interp(at_s, middles, np.array(self.values))
        outside = (at_s < self.start_s) | (at_s > self.start_s + len(self.values) * self.step_s)
        return np.where(outside, np.nan, values)


def prophet(history: History, curves: Sequence[Curve], origins: Ints, leads: Ints) -> F64:
    """The newest curve that each origin can know, corrected by the newest errors; NaN where it knows none."""
    times_s, step_s = history.times_s(), history.series.step_s
    origins_s = history.series.start_s + origins * step_s
    paths = np.full((len(origins), len(leads)), np.nan)
    for curve in curves:
        newer = [other.fitted_s for other in curves if other.fitted_s > curve.fitted_s]
        rows = (origins_s >= curve.fitted_s) & (origins_s < min(newer, default=np.iinfo(np.int64).max))
        if rows.any():
            usual = curve.at(times_s, step_s)
            base = usual[targets(origins[rows], leads)]
            paths[rows] = corrected(history.series, usual, base, origins[rows], leads)
    return paths
