"""What a candidate may know of a series: its values, and which steps came a day and a week before."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forecasting.calendar import Calendar
from forecasting.series import F64, Series

Ints = npt.NDArray[np.int64]

NONE = -1
"""The index of a step before the series begins."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A series with room for `ahead` steps after it, all of them gaps.

    An *origin* is a number of steps: a forecast from origin `n` may know `values[:n]`, and its lead 1 is step `n`.
    """

    series: Series
    calendar: Calendar
    ahead: int

    @property
    def steps(self) -> int:
        """How many steps were measured, gaps among them."""
        return len(self.series)

    def extended(self) -> F64:
        """The values, and a gap for each step ahead."""
        return np.concatenate([self.series.values, np.full(self.ahead, np.nan)])

    def times_s(self) -> Ints:
        """When each step starts, those ahead included."""
        return self.series.start_s + np.arange(self.steps + self.ahead, dtype=np.int64) * self.series.step_s

    def earlier(self, period_s: int) -> Ints:
        """For each step, which one has the same local time `period_s` before; NONE where that is before the series.

        Where clocks were changed in between, that is an hour more or less than `period_s`.
        """
        times_s = self.times_s()
        changed_s = self.calendar.offsets_s(times_s) - self.calendar.offsets_s(times_s - period_s)
        index = (times_s - period_s + changed_s - self.series.start_s) // self.series.step_s
        return np.where(index < 0, NONE, index)


Candidate = Callable[[History, Ints, Ints], F64]
"""From a history, origins and leads to what is expected: one row per origin, NaN where the candidate knows too little."""


def targets(origins: Ints, leads: Ints) -> Ints:
    """The step that each lead of each origin means: one row per origin."""
    return origins[:, None] + leads[None, :] - 1


def known(steps: Ints, needs: Ints, earlier: Ints, origins: Ints) -> Ints:
    """For each step of each origin's row, itself or the nearest one of whole periods before that the origin knows, or NONE.

    To know a step is to know the value of step `needs[step]`.
    """
    steps = steps.copy()
    while (unknown := (steps != NONE) & (needs[steps] >= origins[:, None])).any():
        steps[unknown] = earlier[steps[unknown]]
    return steps


def filled(values: F64) -> F64:
    """Each gap with the last value before it. Gaps before the first value stay."""
    measured = np.where(np.isnan(values), NONE, np.arange(len(values)))
    newest = np.maximum.accumulate(measured) if len(values) else measured
    return np.where(newest == NONE, np.nan, values[newest])


def last_known(values: F64, origins: Ints) -> F64:
    """The last measured value that each origin knows; NaN where there is none."""
    return np.concatenate([[np.nan], filled(values)])[origins]
