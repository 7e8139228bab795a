"""Every verdict of every step at once. Equal to `controlplane.slo.burn.judge` and `controlplane.slo.budget.budget`, number by number."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.slo.burn import error_budget
from controlplane.slo.objective import Calendar, Objective
from controlplane.slo.period import SECOND_NS, period_at
from controlplane.slo.replay.history import History, Ints, Sums
from controlplane.slo.windows import BurnWindow

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WindowJudged:
    """One window at every step. Rates are nan where nothing is known: no events, or a window that reaches before history."""

    window: BurnWindow
    threshold: Floats
    long: Floats
    short: Floats
    fires: Bools


@dataclass(frozen=True, eq=False)
class Judged:
    windows: tuple[WindowJudged, ...]
    left_share: Floats  # of the budget, of the period so far
    period_s: Ints  # how long the period is that each step lies in

    def any_of(self, severity: str, steps: int) -> Bools:
        """Where a window of this severity fires."""
        found = np.zeros(steps, bool)
        for one in self.windows:
            if one.window.severity == severity:
                found |= one.fires
        return found


def judged(history: History, objective: Objective) -> Judged:
    """Raises ValueError where a window is longer than the period."""
    sums = Sums(history)
    starts, period_s = _periods(history, objective)
    rates: dict[int, tuple[Floats, Bools]] = {}
    for window in objective.windows:
        for length_s in (window.long_s, window.short_s):
            if length_s not in rates:
                rates[length_s] = _rate(sums, length_s, objective)
    windows = []
    for window in objective.windows:
        for length in np.unique(period_s).tolist():
            window.burn_rate(length)
        threshold = window.budget_share * period_s / window.long_s
        long, enough = rates[window.long_s]
        short, _ = rates[window.short_s]
        with np.errstate(invalid="ignore"):
            fires = enough & (long > threshold) & (short > threshold)
        windows.append(WindowJudged(window, threshold, long, short, fires))
    return Judged(tuple(windows), _left(sums, starts, objective), period_s)


def _rate(sums: Sums, length_s: int, objective: Objective) -> tuple[Floats, Bools]:
    """Burn rates, and where there are events enough for them."""
    bad, total, reaches = sums.last(length_s)
    counted = reaches & (total > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(counted, bad / total / error_budget(objective.target), np.nan)
    minimum = objective.minimum
    return rate, reaches & (total >= minimum.total) & (bad >= minimum.bad)


def _left(sums: Sums, starts: Ints, objective: Objective) -> Floats:
    bad, total = sums.since(starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1 - bad / (error_budget(objective.target) * total), 1.0)


def _periods(history: History, objective: Objective) -> tuple[Ints, Ints]:
    """The step each step's period begins with, and its length in s. A step belongs to the period that it begins in."""
    period = objective.period
    steps = np.arange(history.steps, dtype=np.int64)
    if not isinstance(period, Calendar):
        width = -(-period.period_s // history.step_s)
        return np.maximum(steps + 1 - width, 0), np.full(history.steps, period.period_s, np.int64)
    begins, lengths = [], []
    at_ns = history.start_s * SECOND_NS
    while at_ns < max(history.end_s, history.start_s + 1) * SECOND_NS:
        span = period_at(period, at_ns)
        begins.append(span.from_ns // SECOND_NS)
        lengths.append(span.length_s)
        at_ns = span.to_ns
    index = np.searchsorted(np.array(begins), history.start_s + steps * history.step_s, side="right") - 1
    index = np.maximum(index, 0)
    firsts = -((history.start_s - np.array(begins, np.int64)) // history.step_s)
    return np.maximum(firsts[index], 0), np.array(lengths, np.int64)[index]
