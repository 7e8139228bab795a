"""Computes distributions and quantiles from classic buckets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .stale import stale


@dataclass(frozen=True, slots=True)
class Distribution:
    """The number of observations at or below each bound (ascending, the last infinite), between two times."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        return self.counts[-1]

    def quantile(self, q: float) -> tuple[float, float] | None:
        """The bounds between which the quantile lies; None without observations.

        A lower bound of -inf, or an upper one of +inf, means that it lies outside the finite bounds.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"quantile {q} is not between 0 and 1")
        if self.total <= 0:
            return None
        place = int(np.searchsorted(self.counts, max(q * self.total, math.ulp(0.0)), side="left"))
        low = self.bounds[place - 1] if place else (0.0 if self.bounds[0] > 0 else -math.inf)
        return low, self.bounds[place]

    def interpolated(self, q: float) -> float | None:
        """The quantile by linear interpolation within its bucket, as in Prometheus. None without observations or outside the bounds."""
        between = self.quantile(q)
        if between is None or math.isinf(between[1]) or math.isinf(between[0]):
            return None
        low, high = between
        place = self.bounds.index(high)
        below = self.counts[place - 1] if place else 0.0
        inside = self.counts[place] - below
        return low + (high - low) * (q * self.total - below) / inside if inside else high


Column = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


def growth(buckets: Mapping[float, Column], *, from_ns: int, to_ns: int, delta: bool = False) -> Distribution | None:
    """The observations in `from_ns < t <= to_ns` of one histogram, given as times (ns, ascending) and values by upper bound.

    A bound that is missing at some time (exponential bounds change with the data) had as many observations as the next lower one. A
    histogram whose total fell began again. None where there are fewer than two samples.
    """
    bounds = sorted(buckets)
    if not bounds or not math.isinf(bounds[-1]):
        return None
    times = np.unique(np.concatenate([column for column, _ in buckets.values()]))
    times = times[times <= to_ns]
    if not len(times):
        return None
    table = np.full((len(times), len(bounds)), np.nan)
    for place, bound in enumerate(bounds):
        at, values = buckets[bound]
        usable = (at <= to_ns) & ~stale(values)
        table[np.searchsorted(times, at[usable]), place] = values[usable]
    seen = ~np.isnan(table[:, -1])  # a time without a total is a gap
    times, table = times[seen], np.fmax.accumulate(np.where(np.isnan(table[seen]), -np.inf, table[seen]), axis=1)
    table[np.isneginf(table)] = 0.0
    inside = times > from_ns
    if delta:
        return Distribution(tuple(bounds), tuple(table[inside].sum(axis=0).tolist())) if inside.any() else None
    first = int(np.argmax(inside)) if inside.any() else len(times)
    base = max(0, first - 1)
    if first == len(times) or len(times) - base < 2:
        return None
    table = table[base:]
    fell = np.diff(table[:, -1]) < 0
    steps = np.where(fell[:, None], table[1:], np.diff(table, axis=0))
    grown = np.maximum.accumulate(np.maximum(steps.sum(axis=0), 0.0))
    return Distribution(tuple(bounds), tuple(grown.tolist()))
