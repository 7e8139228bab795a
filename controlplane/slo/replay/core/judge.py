"""Judges every step at once, by the rules of `slo.core.burn` and `slo.core.budget`, as the controller does."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.burn import burn_rates, error_budget
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, check, period_at
from controlplane.slo.core.windows import BurnWindow
from controlplane.slo.replay.core.history import History, Ints, Sums

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WindowJudged:
    """One window at every step. Rates are nan where a window has no events."""

    window: BurnWindow
    threshold: Floats
    long: Floats
    short: Floats
    fires: Bools


@dataclass(frozen=True, eq=False)
class Judged:
    windows: tuple[WindowJudged, ...]
    left_share: Floats  # of the budget of the period so far
    period_s: Ints  # length of the period of each step
    elapsed_s: Ints  # how much of it had passed and was recorded
    events: tuple[int, int]  # bad and total of the results' steps

    def any_of(self, severity: str, steps: int) -> Bools:
        """Where a window of this severity fires."""
        fires = np.zeros(steps, bool)
        for window in self.windows:
            if window.window.severity == severity:
                fires |= window.fires
        return fires


def judged(history: History, objective: Objective) -> Judged:
    """Judge a history. Raises ValueError, as where a window is longer than the period."""
    check(objective)
    sums = Sums(history)
    starts, period_s, elapsed_s = _periods(history, objective)
    rates = {
        length: burn_rates(*sums.last(objective.counted_s(length)), objective.target)
        for window in objective.windows
        for length in (window.long_s, window.short_s)
    }
    lengths, which = np.unique(period_s, return_inverse=True)
    windows = []
    for window in objective.windows:
        threshold = np.array([window.burn_rate(length) for length in lengths.tolist()], np.float64)[which]
        long, short = rates[window.long_s], rates[window.short_s]
        enough = objective.minimum.enough(*sums.requests(objective.counted_s(window.long_s)))
        windows.append(WindowJudged(window, threshold, long, short, enough & (long > threshold) & (short > threshold)))
    period = objective.period
    bad, total = sums.last(period.period_s) if isinstance(period, Rolling) else sums.since(starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(total > 0, 1 - bad / (error_budget(objective.target) * total), 1.0)
    return Judged(tuple(windows), left, period_s, elapsed_s, _events(history, sums))


def _events(history: History, sums: Sums) -> tuple[int, int]:
    if history.first >= history.steps:
        return 0, 0
    bad, total = sums.since(np.full(history.steps, history.first, np.int64).clip(max=np.arange(history.steps) + 1))
    return int(bad[-1]), int(total[-1])


def _periods(history: History, objective: Objective) -> tuple[Ints, Ints, Ints]:
    """For each step the first step of its period (0 if rolling), the period's length, s, and how much of it passed and was recorded.

    A step belongs to the period that it begins in.
    """
    period = objective.period
    ends_s = history.start_s + (np.arange(history.steps, dtype=np.int64) + 1) * history.step_s
    if not isinstance(period, Calendar):
        length = np.full(history.steps, period.period_s, np.int64)
        return np.zeros_like(length), length, np.clip(ends_s - history.since_s, 0, length)
    begins, lengths = [], []
    at_ns = history.start_s * SECOND_NS
    while at_ns < max(history.end_s, history.start_s + 1) * SECOND_NS:
        span = period_at(period, at_ns)
        begins.append(span.from_ns // SECOND_NS)
        lengths.append(span.length_s)
        at_ns = span.to_ns
    index = np.searchsorted(np.array(begins), ends_s - history.step_s, side="right") - 1
    from_s = np.array(begins, np.int64)[np.maximum(index, 0)]
    length = np.array(lengths, np.int64)[np.maximum(index, 0)]
    starts = np.maximum(-((history.start_s - from_s) // history.step_s), 0)
    return starts, length, np.clip(ends_s - np.maximum(from_s, history.since_s), 0, length)
