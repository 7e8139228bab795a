"""Computes quantiles and means from histograms of requests. A figure is within 0.4 % of the exact one: a bin is at most 0.8 % wide.

The bins are HdrHistogram's (hdrhistogram.org) with 128 to an octave; schema/0014_rollups.sql has the formula.
Histograms are dense here: an array of BINS counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BINS = 8192
"""More than 64-bit values have. `part_bins` has part * BINS + bin."""
BAND_SHIFT = 3
"""Sums of parts are by bins of E2E without so many lowest bits."""
BANDS = BINS >> BAND_SHIFT


def bins_of(values: npt.NDArray[np.uint64]) -> I64:
    """The bin of each value, below BINS. Monotone.

    frexp rounds to 53 bits: a value just below 2^k that is rounded up to it is in the same bin either way.
    """
    exponents = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - 8, 0)
    numbers: I64 = (values >> exponents.astype(np.uint64)).astype(np.int64) + 128 * exponents
    return numbers


def _mids() -> F64:
    numbers = np.arange(BINS)
    exponents = np.maximum(numbers // 128 - 1, 0)
    mids: F64 = (numbers - 128.0 * exponents + 0.5) * np.exp2(exponents) - 0.5
    return mids


MIDS = _mids()
"""The middle of the values of each bin; exact below 256."""


def summed(rows: I64, keys: int, lists: pa.ListArray, weights: pa.ListArray, width: int) -> F64:
    """`weights` added up by key and bin (keys x width). `rows` has the key of each row, `lists` its bins."""
    cells = np.repeat(rows, lists.value_lengths().to_numpy()) * width + lists.flatten().to_numpy()
    weighed: F64 = weights.flatten().to_numpy().astype(np.float64)
    counted: F64 = np.asarray(np.bincount(cells, weighed, minlength=keys * width), np.float64)
    return counted.reshape(keys, width)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of the values of one measure by bin; `ends` (BINS + 1) is how many values come before each bin, and at last all."""

    counts: F64
    ends: F64

    @classmethod
    def of(cls, counts: F64) -> "Histogram":
        return cls(counts, _running(counts))

    @property
    def size(self) -> int:
        return int(self.ends[-1])

    def quantiles(self, levels: Sequence[float]) -> list[float]:
        """Linear between the two nearest ranks (numpy's default method). NaN without values."""
        if not self.size:
            return [float("nan")] * len(levels)
        place = np.asarray(levels) * (self.size - 1)
        low = np.floor(place)
        lower, upper = self._at(low), self._at(np.minimum(low + 1, self.size - 1))
        between: list[float] = (lower + (place - low) * (upper - lower)).tolist()
        return between

    def _at(self, ranks: F64) -> F64:
        values: F64 = MIDS[np.searchsorted(self.ends[1:], ranks, side="right")]
        return values

    def means(self, ranges: Sequence[tuple[float, float]]) -> list[float]:
        """The mean of the values of ranks first <= r < end, counted from 0, for each (first, end); NaN where there are none."""
        ranks = np.clip(ranges, 0.0, self.size)
        sums = np.interp(ranks, self.ends, _running(self.counts * MIDS))
        counts = ranks[:, 1] - ranks[:, 0]
        means: list[float] = np.divide(
            sums[:, 1] - sums[:, 0], counts, out=np.full(len(ranks), np.nan), where=counts > 0
        ).tolist()
        return means


def parts_between(e2e: Histogram, bands: F64, ranges: Sequence[tuple[float, float]]) -> list[tuple[int, list[float]]]:
    """How many requests have ranks first <= r < end of E2E, and the sums of the parts of their time, for each (first, end).

    `bands` (BANDS x parts) are the sums by wide bin of E2E. Of a wide bin that lies on the edge its share is taken.
    """
    ranks = np.clip(ranges, 0.0, e2e.size)
    ends = e2e.ends[:: 1 << BAND_SHIFT]
    at = np.minimum(np.searchsorted(ends, ranks, side="right") - 1, BANDS - 1)
    widths = ends[at + 1] - ends[at]
    shares = np.divide(ranks - ends[at], widths, out=np.zeros(ranks.shape), where=widths > 0)
    before = (np.cumsum(bands, axis=0) - bands)[at] + shares[..., None] * bands[at]
    counts = np.rint(ranks[:, 1] - ranks[:, 0]).astype(np.int64)
    return list(zip(counts.tolist(), (before[:, 1] - before[:, 0]).tolist(), strict=True))


def _running(values: F64) -> F64:
    """The sums of all values before each, and at last of all."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums
