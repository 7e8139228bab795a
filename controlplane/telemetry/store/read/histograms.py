"""Computes quantiles and means from histograms of requests. A figure is within 0.4 % of the exact one: a bin is at most 0.8 % wide.

The bins are HdrHistogram's (hdrhistogram.org) with 128 to an octave; schema/0001_initial.sql has the formula.
Histograms are dense here: an array of counts, of all bins or of those in use, with a row for each of several histograms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BINS = 8192
"""More than 64-bit values have. `part_bins` has part * BINS + bin."""
BAND_SHIFT = 3
"""Sums of parts are by bins of E2E without so many lowest bits."""


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


@dataclass(frozen=True, slots=True)
class Histograms:
    """A histogram a row: counts of the values by bin, from the bin `first` on.

    `ends` are how many values come before each bin, and at last all.
    """

    counts: F64  # rows x bins
    ends: F64  # rows x (bins + 1)
    first: int

    @classmethod
    def of(cls, counts: F64, first: int = 0) -> "Histograms":
        return cls(counts, _running(counts), first)

    @property
    def sizes(self) -> I64:
        """How many values each has."""
        return self.ends[:, -1].astype(np.int64)

    @property
    def _mids(self) -> F64:
        return MIDS[self.first : self.first + self.counts.shape[1]]

    def quantiles(self, levels: Sequence[float]) -> F64:
        """By row and level, linear between the two nearest ranks (numpy's default method). NaN without values."""
        last = self.sizes[:, None] - 1.0
        place = np.asarray(levels) * last
        low = np.floor(place)
        lower, upper = self._at(low), self._at(np.minimum(low + 1, last))
        between: F64 = np.where(last < 0, np.nan, lower + (place - low) * (upper - lower))
        return between

    def _at(self, ranks: F64) -> F64:
        values: F64 = self._mids[_places(self.ends[:, 1:], ranks)]
        return values

    def means(self, ranges: F64) -> F64:
        """By row, the mean of the values of ranks first <= r < end, counted from 0, for each range; NaN where there are none.

        `ranges` are rows x ranges x 2.
        """
        ranks = np.clip(ranges, 0.0, self.sizes[:, None, None]).reshape(len(ranges), -1)
        at = np.clip(_places(self.ends, ranks) - 1, 0, self.counts.shape[1] - 1)
        before = np.take_along_axis(_running(self.counts * self._mids), at, 1)
        sums = before + (ranks - np.take_along_axis(self.ends, at, 1)) * self._mids[at]
        counts, sums = np.diff(ranks)[:, ::2], np.diff(sums)[:, ::2]
        means: F64 = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
        return means


def parts_between(e2e: Histograms, bands: F64, ranges: F64) -> tuple[I64, F64]:
    """How many requests have ranks first <= r < end of E2E (rows x ranges), and the sums of the parts of their time (… x parts).

    `bands` (rows x wide bins x parts) are the sums by wide bin of E2E, from E2E's first on. Of a wide bin that lies on the edge its share
    is taken. `ranges` are rows x ranges x 2.
    """
    ranks = np.clip(ranges, 0.0, e2e.sizes[:, None, None]).reshape(len(ranges), -1)
    ends = e2e.ends[:, :: 1 << BAND_SHIFT]
    at = np.clip(_places(ends, ranks) - 1, 0, bands.shape[1] - 1)
    start = np.take_along_axis(ends, at, 1)
    widths = np.take_along_axis(ends, at + 1, 1) - start
    shares = np.divide(ranks - start, widths, out=np.zeros(ranks.shape), where=widths > 0)
    inside = np.take_along_axis(bands, at[:, :, None], 1)
    before = np.take_along_axis(np.cumsum(bands, axis=1), at[:, :, None], 1) - inside + shares[:, :, None] * inside
    counts = np.rint(np.diff(ranks)[:, ::2]).astype(np.int64)
    return counts, np.diff(before, axis=1)[:, ::2]


def _places(ends: F64, ranks: F64) -> I64:
    """By row, how many of its `ends` are at most each of its ranks."""
    places = [np.searchsorted(of_row, wanted, side="right") for of_row, wanted in zip(ends, ranks, strict=True)]
    return np.array(places, np.int64).reshape(ranks.shape)


def _running(values: F64) -> F64:
    """By row, the sums of all values before each, and at last of all."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums
