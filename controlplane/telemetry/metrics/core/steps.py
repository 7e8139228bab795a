"""Divides a series into the steps of a chart: gauges as means, counters as rates. A step without samples is None."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.telemetry.core.metric_types import RolledSeries

from .counters import increases
from .stale import stale

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepValue:
    """A gauge's mean, or a counter's mean rate per second, and how often the counter began again.

    `most` is a gauge's highest sample; None where it was not wanted.
    """

    value: float
    resets: int = 0
    most: float | None = None


def interval_ns(times: Times) -> int | None:
    """How often a series is sampled: the median of the times between samples. None for fewer than two samples."""
    return round(float(np.median(np.diff(times)))) if len(times) > 1 else None


def fitting(step_ns: int, choices_ns: Sequence[int], intervals_ns: Sequence[int]) -> int:
    """The least of `choices_ns` that is at least `step_ns` and twice the interval of the slowest series, so that steps are not empty by
    chance. The greatest choice where none is large enough."""
    least = max(step_ns, 2 * max(intervals_ns, default=0))
    return next((choice for choice in sorted(choices_ns) if choice >= least), max(choices_ns))


def means(times: Times, values: Values, edges: Times) -> list[StepValue | None]:
    """The mean of the samples after each edge and up to the next."""
    usable = ~stale(values) & ~np.isnan(values)
    times, values = times[usable], values[usable]
    places = np.searchsorted(times, edges, side="right").tolist()
    return [
        StepValue(float(values[low:high].mean())) if high > low else None for low, high in itertools.pairwise(places)
    ]


def rolled_means(
    rolled: RolledSeries | None, samples: Sequence[tuple[Times, Values]], starts: Times
) -> list[StepValue | None]:
    """The mean and the highest of each step, of rollups by these steps and of samples beside them."""
    sums, counts, most = np.zeros(len(starts)), np.zeros(len(starts)), np.full(len(starts), -np.inf)
    parts = [(rolled.starts, rolled.sums, rolled.counts, rolled.most)] if rolled else []
    for times, values in samples:
        usable = ~np.isnan(values)  # stale markers are among these
        parts.append((times[usable], values[usable], np.ones(int(usable.sum()), np.int64), values[usable]))
    for times, added, number, highest in parts:
        places = np.searchsorted(starts, times, side="right") - 1
        inside = places >= 0
        np.add.at(sums, places[inside], added[inside])
        np.add.at(counts, places[inside], number[inside])
        np.maximum.at(most, places[inside], highest[inside])
    return [
        StepValue(float(total / count), most=float(highest)) if count else None
        for total, count, highest in zip(sums, counts, most, strict=True)
    ]


def rates(times: Times, values: Values, starts: Times, edges: Times, *, delta: bool = False) -> list[StepValue | None]:
    """The mean rate between each edge and the next: the growth of the counter over the time between its samples.

    That time begins with the sample before the edge, from which the growth counts, so that a steady counter has a steady rate wherever
    the edges lie between its samples.
    """
    usable = ~stale(values) & ~np.isnan(values)
    seen = times[usable]
    before = np.searchsorted(seen, edges, side="right") - 1
    steps: list[StepValue | None] = []
    for number, grown in enumerate(increases(times, values, starts, edges, delta=delta)):
        low, length = int(edges[number]), int(edges[number + 1] - edges[number])
        if grown is None:
            steps.append(None)
            continue
        begins = grown.from_ns
        if delta:
            begins = grown.to_ns - length
        elif begins == low and before[number] >= 0:
            begins = int(seen[before[number]])
        seconds = (grown.to_ns - begins) / 1e9
        steps.append(StepValue(grown.amount / seconds, grown.resets) if seconds > 0 else None)
    return steps
