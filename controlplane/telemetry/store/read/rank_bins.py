"""Computes exact quantiles without reading every request: values lie in bins, and only bins that hold a wanted rank are opened.

A *cell* is a bin of one key (a step of a chart; a report has the one key 0), as one number. A measure's cells and how many values
each holds say in which cell a rank lies, and at which place in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

E2E = "e2e"
BINS = 4096
_DENSE = 4 * BINS
PLAIN_BINS = 128
"""Each bin below this holds one value, the bin's own number."""


def _bins(values: U64) -> I64:
    """The bin of each value, below BINS: 64 bins to an octave, 0.8 to 1.6 % wide (the layout of HdrHistogram, hdrhistogram.org).

    Monotone, although frexp rounds to 53 bits: a value just below 2^k that is rounded up to it is in the same bin either way.
    """
    exponents = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - 7, 0)
    numbers: I64 = (values >> exponents.astype(np.uint64)).astype(np.int64) + 64 * exponents
    return numbers


def _floors(numbers: I64) -> U64:
    """The least value of each bin."""
    exponents = np.maximum(numbers // 64 - 1, 0)
    floors: U64 = (numbers - 64 * exponents).astype(np.uint64) << exponents.astype(np.uint64)
    return floors


@dataclass(frozen=True, slots=True)
class Values:
    """One measure of some requests, in no order, with the cell of each. `parts` (requests x parts) are the parts of 'e2e'."""

    cells: I64
    values: U64
    parts: U64 | None = None

    @classmethod
    def of(cls, keys: I64, values: U64, parts: U64 | None = None) -> "Values":
        return cls(keys * BINS + _bins(values), values, parts)

    @classmethod
    def joined(cls, several: Sequence["Values"]) -> "Values":
        parts = [values.parts for values in several if values.parts is not None]
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(values.cells for values in several)]),
            np.concatenate([np.zeros(0, np.uint64), *(values.values for values in several)]),
            np.concatenate(parts) if parts else None,
        )

    def of_key(self, key: int) -> "Values":
        """The same values under another key."""
        return Values(self.cells % BINS + key * BINS, self.values, self.parts)

    def only(self, chosen: npt.NDArray[np.bool_] | I64) -> "Values":
        return Values(self.cells[chosen], self.values[chosen], None if self.parts is None else self.parts[chosen])

    def stored(self) -> "Values":
        """The values that have to be stored: all but those that equal their bin's number."""
        return self if self.parts is not None else self.only(self.values >= PLAIN_BINS)

    def among(self, cells: I64) -> "Values":
        return self.only(np.isin(self.cells, cells))

    def in_order(self) -> "Values":
        """By key and value."""
        if self.parts is None and len(self.cells) and self.cells.min() // BINS == self.cells.max() // BINS:
            return Values(np.sort(self.cells), np.sort(self.values))  # within a key these ascend together
        return self.only(np.lexsort((self.values, self.cells)))


@dataclass(frozen=True, slots=True)
class Counts:
    """The cells of one measure in order, how many values each holds and, for 'e2e', the sums of their parts (cells x parts)."""

    cells: I64
    counts: I64
    sums: U64 | None = None

    @classmethod
    def of(cls, values: Values) -> "Counts":
        return cls._summed(values.cells, np.ones(len(values.cells), np.int64), values.parts)

    @classmethod
    def merged(cls, several: Sequence["Counts"]) -> "Counts":
        sums = [counts.sums for counts in several if counts.sums is not None]
        return cls._summed(
            np.concatenate([counts.cells for counts in several]),
            np.concatenate([counts.counts for counts in several]),
            np.concatenate(sums) if sums else None,
        )

    @classmethod
    def _summed(cls, cells: I64, counts: I64, sums: U64 | None) -> "Counts":
        """Adds up entries of the same cell. In order of cells."""
        if sums is None and len(cells) and cells.max() < _DENSE:
            counted = np.bincount(cells, counts)  # as 53 bits, which no count exceeds
            cells_in_use = np.flatnonzero(counted)
            return cls(cells_in_use, counted[cells_in_use].astype(np.int64))
        order = np.argsort(cells)
        own = cells[order]
        first = np.flatnonzero(np.diff(own, prepend=-1))
        if not len(first):
            return cls(own, counts, sums)
        parts = None if sums is None else np.add.reduceat(sums[order], first)
        return cls(own[first], np.add.reduceat(counts[order], first), parts)

    def within(self, cells: I64) -> int:
        """How many values these cells hold."""
        return int(self.counts[np.isin(self.cells, cells)].sum())

    def of_key(self, key: int) -> "Counts":
        """The counts of key 0, under another key."""
        return Counts(key * BINS + self.cells, self.counts, self.sums) if key else self

    def by_key(self) -> tuple[I64, I64, I64]:
        """The keys in order, how many values each has, and how many come before it."""
        keys, first = np.unique(self.cells // BINS, return_index=True)
        ends = np.cumsum(self.counts)
        before = ends[first] - self.counts[first]
        return keys, np.diff(np.append(before, ends[-1:])), before


class IncompleteCellsError(Exception):
    """Cells do not hold as many values as counted, because they changed between two queries."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One measure with the single values of some of its cells."""

    counts: Counts
    values: Values  # in order of key and value
    keys: I64  # in order
    sizes: I64  # how many values each key has
    before: I64  # how many values come before each key's

    @classmethod
    def of(cls, counts: Counts, cells: I64, values: Sequence[Values]) -> "Opened":
        """`values` are all stored values of `cells` (see `Values.stored`), in any order. Raises IncompleteCellsError."""
        joined = Values.joined(values)
        stored_cells = cells if joined.parts is not None else cells[cells % BINS >= PLAIN_BINS]
        if counts.within(stored_cells) != len(joined.values):
            raise IncompleteCellsError
        return cls(counts, joined.in_order(), *counts.by_key())

    def quantiles(self, levels: Sequence[float]) -> F64:
        """By key and level, linear between the two nearest ranks (numpy's default method)."""
        low, high, share = _between(levels, self.sizes)
        lower = self._at(low + self.before[:, None])
        return lower + share * (self._at(high + self.before[:, None]) - lower)

    def at_shares(self, shares: Sequence[float]) -> F64:
        """By key and share, the value at rank floor(share x n), counted from 0."""
        return self._at(_nearest(shares, self.sizes) + self.before[:, None])

    def weighted(self) -> Iterator[tuple[int, "Weighted"]]:
        """For 'e2e', by key. An unopened cell counts as its lowest value: it lies wholly on one side of each wanted rank."""
        if self.counts.sums is None or self.values.parts is None:
            raise TypeError("this measure is not made of parts")
        closed = ~np.isin(self.counts.cells, self.values.cells)
        rest = self.counts.cells[closed]
        cells = np.concatenate([self.values.cells, rest])
        values = np.concatenate([self.values.values, _floors(rest % BINS)]).astype(np.float64)
        counts = np.concatenate([np.ones(len(self.values.cells), np.int64), self.counts.counts[closed]])
        sums = np.concatenate([self.values.parts, self.counts.sums[closed]])
        order = np.lexsort((values, cells))
        ends = np.searchsorted(cells[order], (self.keys + 1) * BINS)
        for key, chosen in zip(self.keys.tolist(), np.split(order, ends[:-1]), strict=True):
            yield key, Weighted(values[chosen], counts[chosen], sums[chosen])

    def _at(self, ranks: I64) -> F64:
        """The value at each rank, counted from 0 over all keys."""
        ends = np.cumsum(self.counts.counts)
        where = np.searchsorted(ends, ranks, side="right")
        cells, place = self.counts.cells[where], ranks - (ends - self.counts.counts)[where]
        plain = cells % BINS
        own = np.append(self.values.cells, -1)
        first = np.searchsorted(own[:-1], cells)
        known = own[first] == cells
        if not (known | (plain < PLAIN_BINS)).all():
            raise ValueError("a rank lies in a cell that was not opened")
        values = np.append(self.values.values, np.uint64(0))[np.where(known, first + place, len(own) - 1)]
        return np.where(known, values.astype(np.float64), plain)


@dataclass(frozen=True, slots=True)
class Weighted:
    """Values in order, how many there are of each, and the sums of their parts (values x parts)."""

    values: F64
    counts: I64
    parts: U64

    def sums(self, chosen: npt.NDArray[np.bool_] | slice) -> tuple[int, list[int]]:
        """How many are chosen, and the sums of their parts."""
        return int(self.counts[chosen].sum()), self.parts[chosen].sum(axis=0).tolist()


def cells_to_open(counts: Counts, levels: Sequence[float], shares: Sequence[float]) -> I64:
    """The cells to open for these quantiles and ranks of every key, in order."""
    _, sizes, before = counts.by_key()
    low, high, _ = _between(levels, sizes)
    ranks = np.concatenate([low, high, _nearest(shares, sizes)], axis=1) + before[:, None]
    return np.unique(counts.cells[np.searchsorted(np.cumsum(counts.counts), ranks, side="right")])


def _between(levels: Sequence[float], sizes: I64) -> tuple[I64, I64, F64]:
    place = np.multiply.outer((sizes - 1).astype(np.float64), np.asarray(levels, np.float64))
    low = np.floor(place).astype(np.int64)
    return low, np.minimum(low + 1, (sizes - 1)[:, None]), place - low


def _nearest(shares: Sequence[float], sizes: I64) -> I64:
    place: I64 = np.floor(np.multiply.outer(sizes.astype(np.float64), np.asarray(shares, np.float64))).astype(np.int64)
    return np.minimum(place, (sizes - 1)[:, None])
