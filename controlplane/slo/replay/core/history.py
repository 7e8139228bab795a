"""Counts over time, and their sums over windows with the controller's edges."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.objective import Timeslices
from controlplane.slo.core.windows import grid_s

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class History:
    """Bad and total requests of equal steps. Before `start_s` there were none.

    Times are s since the epoch. Results begin at `judged_from_s`; earlier steps fill the windows. `recorded_s`: when the first
    request was recorded; None: `start_s`. With `slices`, these are the events.
    """

    start_s: int
    step_s: int
    bad: Ints
    total: Ints
    judged_from_s: int
    recorded_s: int | None = None
    slices: Timeslices | None = None

    @property
    def steps(self) -> int:
        return len(self.bad)

    @property
    def end_s(self) -> int:
        return self.start_s + self.steps * self.step_s

    @property
    def since_s(self) -> int:
        """When the first request was recorded, s."""
        return self.start_s if self.recorded_s is None else max(self.start_s, self.recorded_s)

    @property
    def first(self) -> int:
        """The first step of the results."""
        return max(0, -(-(self.judged_from_s - self.start_s) // self.step_s))

    def at_s(self, step: int) -> int:
        """When a step ends, and is judged."""
        return self.start_s + (step + 1) * self.step_s


class Sums:
    """Sums of a history's events over windows, as differences of prefix sums."""

    def __init__(self, history: History) -> None:
        self._history = history
        steps = np.arange(history.steps, dtype=np.int64)
        self._ends_s = history.start_s + (steps + 1) * history.step_s
        self._bad, self._total = _summed(history.bad), _summed(history.total)
        self._through = steps + 1
        self._slices = None if history.slices is None else _Slices(history, history.slices, self._bad, self._total)

    def last(self, length_s: int) -> tuple[Ints, Ints]:
        """Bad and total events of the last `length_s` at the end of every step, with the edges of `Tallies.window`."""
        return self.since(self._lows(length_s))

    def requests(self, length_s: int) -> tuple[Ints, Ints]:
        """The same for requests, where the events are slices."""
        lows = self._lows(length_s)
        return self._bad[self._through] - self._bad[lows], self._total[self._through] - self._total[lows]

    def since(self, starts: Ints) -> tuple[Ints, Ints]:
        """Bad and total events from these steps to the end of every step."""
        if self._slices:
            return self._slices.since(starts)
        return self._bad[self._through] - self._bad[starts], self._total[self._through] - self._total[starts]

    def _lows(self, length_s: int) -> Ints:
        step_s = self._history.step_s
        grid = max(grid_s(length_s), step_s)
        lows_s = -(-self._ends_s // grid) * grid - -(-length_s // grid) * grid
        return np.clip(-(-(lows_s - self._history.start_s) // step_s), 0, self._through)


class _Slices:
    """Slices as events. A past slice counts where it began; the current one is judged on its requests so far."""

    def __init__(self, history: History, slices: Timeslices, bad: Ints, total: Ints) -> None:
        width = slices.slice_s // history.step_s
        steps = np.arange(history.steps, dtype=np.int64)
        self._began = steps // width * width
        running_total = total[steps + 1] - total[self._began]
        running_bad = bad[steps + 1] - bad[self._began]
        judged = running_total > 0
        missed = judged & (running_total - running_bad < slices.slice_target * running_total)
        self._running_bad, self._running_total = missed.astype(np.int64), judged.astype(np.int64)
        last = np.minimum(self._began[::width] + width, history.steps) - 1
        over_bad, over_total = np.zeros_like(history.bad), np.zeros_like(history.total)
        over_bad[::width], over_total[::width] = self._running_bad[last], self._running_total[last]
        self._bad, self._total = _summed(over_bad), _summed(over_total)

    def since(self, starts: Ints) -> tuple[Ints, Ints]:
        runs = self._began >= starts
        until = np.maximum(self._began, starts)
        return (
            self._bad[until] - self._bad[starts] + runs * self._running_bad,
            self._total[until] - self._total[starts] + runs * self._running_total,
        )


def _summed(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
