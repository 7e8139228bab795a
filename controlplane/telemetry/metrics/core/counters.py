"""Computes how much a counter grew, without extrapolation. A counter without samples has no increase, which differs from zero."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .stale import stale

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Increase:
    """The growth of a counter between `from_ns` and `to_ns`, the part of the window in which it was observed.

    `resets` is how often it began again.
    """

    amount: float
    from_ns: int
    to_ns: int
    resets: int


def increase(
    times: Times, values: Values, starts: Times, *, from_ns: int, to_ns: int, delta: bool = False
) -> Increase | None:
    """The increase in `from_ns < t <= to_ns`; None where there are fewer than two samples and no known start.

    `times` ascend, in ns. `starts` are the times since which each value counts, 0 where unknown. The last sample before the window is the
    counter's value at the window's beginning: pass at least that one. Between two samples a counter grew by their difference, after a reset
    (a value that fell, or a later start) by the whole new value. A first sample whose start lies in the window grew by its whole value.
    A start may lie just after its sample, because a page that is read while a counter is made has the time at which the reading began.
    Gaps (stale markers) are skipped: a counter that returns without a reset has grown meanwhile.
    """
    usable = ~stale(values) & ~np.isnan(values) & (times <= to_ns)
    times, values, starts = times[usable], values[usable], starts[usable]
    inside = times > from_ns
    if delta:
        return _of_deltas(times, values, starts, inside, from_ns)
    first = int(np.argmax(inside)) if inside.any() else len(times)
    if first == len(times):
        return None
    base = max(0, first - 1)  # the last sample before the window, or the first in it
    times, values, starts = times[base:], values[base:], starts[base:]
    grown, resets = _steps(values, starts, times)
    amount, begin = float(grown.sum()), max(int(times[0]), from_ns)
    if times[0] > from_ns and starts[0] > from_ns:
        amount, begin = amount + float(values[0]), min(int(starts[0]), int(times[0]))
    elif len(times) < 2:
        return None
    return Increase(amount, begin, int(times[-1]), int(resets.sum()))


def _steps(values: Values, starts: Times, times: Times) -> tuple[Values, npt.NDArray[np.bool_]]:
    """By how much the counter grew from sample to sample, and where it began again."""
    with np.errstate(invalid="ignore"):  # from one infinity to the next
        difference = np.diff(values)
    known = (starts[1:] > 0) & (starts[1:] > starts[:-1])
    # A later start is a reset only if it lies after the previous sample, because the starts of some senders vary.
    resets = (difference < 0) | (known & (starts[1:] >= times[:-1]))
    return np.where(resets, values[1:], np.nan_to_num(difference, nan=0.0)), resets


def _of_deltas(
    times: Times, values: Values, starts: Times, inside: npt.NDArray[np.bool_], from_ns: int
) -> Increase | None:
    """The sum of the deltas that end in the window."""
    if not inside.any():
        return None
    times, values, starts = times[inside], values[inside], starts[inside]
    begin = min(int(starts[0]), int(times[0])) if starts[0] > 0 else int(times[0])
    return Increase(float(values.sum()), max(begin, from_ns), int(times[-1]), 0)


def increases(
    times: Times, values: Values, starts: Times, edges: Times, *, delta: bool = False
) -> list[Increase | None]:
    """The increase between each edge and the next, for the steps of a chart. None in a gap.

    Growth between two samples counts in the step of the second only if the first lies at most one step before that step.
    """
    grown: list[Increase | None] = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        recent = times > low - (high - low)
        grown.append(increase(times[recent], values[recent], starts[recent], from_ns=low, to_ns=high, delta=delta))
    return grown
