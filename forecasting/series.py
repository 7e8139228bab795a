"""Demand over time, in even steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


class SeriesError(ValueError):
    """The values cannot be a series. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Values in even steps: `values[i]` covers the time from `start_s + i * step_s` for `step_s` seconds.

    `start_s` is an epoch and a multiple of `step_s`. NaN is a gap (it was not measured), 0 is none.
    Raises SeriesError where a field is not so.
    """

    start_s: int
    step_s: int
    values: F64

    def __post_init__(self) -> None:
        values: npt.NDArray[Any] = np.asarray(self.values, dtype=np.float64)
        if self.step_s <= 0:
            raise SeriesError(f"step_s is {self.step_s}: give the length of a step in seconds, 1 or more")
        if self.start_s % self.step_s:
            raise SeriesError(f"start_s is {self.start_s}: give a multiple of step_s, {self.step_s} s")
        if values.ndim != 1:
            raise SeriesError(f"values have {values.ndim} dimensions: give one value per step")
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def end_s(self) -> int:
        """The epoch at which the last step ends."""
        return self.start_s + len(self.values) * self.step_s

    def times_s(self) -> npt.NDArray[np.int64]:
        """The epoch at which each step starts."""
        return self.start_s + np.arange(len(self.values), dtype=np.int64) * self.step_s

    def last(self, steps: int) -> "Series":
        """The last `steps` steps, or all where there are fewer."""
        skipped = max(0, len(self.values) - steps)
        return Series(self.start_s + skipped * self.step_s, self.step_s, self.values[skipped:])

    def until(self, steps: int) -> "Series":
        """The first `steps` steps: what was known at the end of the last of them."""
        return Series(self.start_s, self.step_s, self.values[:steps])


MAX_DEMAND = 1e15
"""More per second than any demand: sums of squares of such values still have all their digits."""


def usable(series: Series) -> tuple[Series, int]:
    """The series with values that no demand can have (below 0, or above MAX_DEMAND) as gaps, and how many those were."""
    refused = (series.values > MAX_DEMAND) | (series.values < 0)
    count = int(refused.sum())
    if not count:
        return series, 0
    return Series(series.start_s, series.step_s, np.where(refused, np.nan, series.values)), count


def resampled(series: Series, step_s: int) -> Series:
    """The means over longer steps, from the first whole one to the last whole one. A step of gaps alone is a gap.

    Raises SeriesError where `step_s` is not a multiple of the series' own.
    """
    if step_s == series.step_s:
        return series
    if step_s < series.step_s or step_s % series.step_s:
        raise SeriesError(f"step_s is {step_s}: give a multiple of the series' own step, {series.step_s} s")
    factor = step_s // series.step_s
    start_s = -(-series.start_s // step_s) * step_s
    skipped = (start_s - series.start_s) // series.step_s
    count = max(0, len(series) - skipped) // factor
    blocks = series.values[skipped : skipped + count * factor].reshape(count, factor)
    measured = ~np.isnan(blocks)
    sums = np.where(measured, blocks, 0.0).sum(axis=1)
    counts = measured.sum(axis=1)
    means = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return Series(start_s, step_s, means)
