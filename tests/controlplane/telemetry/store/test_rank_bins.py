"""Quantiles found by opening a few bins are those of all values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.store.read.rank_bins import (
    BINS,
    Counts,
    IncompleteCellsError,
    Opened,
    Values,
    cells_to_open,
)

LEVELS, SHARES = (0.0, 0.4, 0.5, 0.95, 0.99, 1.0), (0.4, 0.6, 0.985, 1.0)
U64 = st.one_of(
    st.integers(0, 200), st.integers(0, 2**40), st.integers(2**53 - 5, 2**53 + 5), st.integers(0, 2**64 - 1)
)
ANY = st.lists(st.tuples(st.integers(0, 4), U64), min_size=1, max_size=200)


def values(found: list[tuple[int, int]], parts: bool = False) -> Values:
    keys, held = np.array([key for key, _ in found], np.int64), np.array([value for _, value in found], np.uint64)
    return Values.of(keys, held, np.stack([held // 3, held - held // 3], axis=1) if parts else None)


@given(ANY)
def test_a_bin_holds_neighbours_and_lies_between_the_others(found: list[tuple[int, int]]) -> None:
    numbers = np.sort(np.array([value for _, value in found], np.uint64))
    cells = Values.of(np.zeros(len(numbers), np.int64), numbers).cells
    assert (np.diff(cells) >= 0).all()
    assert cells.min() >= 0
    assert cells.max() < BINS
    for cell in set(cells.tolist()):
        inside = numbers[cells == cell]
        assert int(inside[-1]) - int(inside[0]) <= int(inside[0]) / 64


@given(ANY)
def test_quantiles_are_numpy_s_and_ranks_are_values(found: list[tuple[int, int]]) -> None:
    everything = values(found)
    counts = Counts.of(everything)
    cells = cells_to_open(counts, LEVELS, SHARES)
    opened = Opened.of(counts, cells, [everything.among(cells).stored()])
    assert opened.keys.tolist() == sorted({key for key, _ in found})
    for at, key in enumerate(opened.keys.tolist()):
        own = np.sort([value for other, value in found if other == key])
        assert opened.sizes[at] == len(own)
        assert opened.quantiles(LEVELS)[at] == pytest.approx(np.quantile(own.astype(np.float64), LEVELS))
        places = [min(int(share * len(own)), len(own) - 1) for share in SHARES]
        assert opened.at_shares(SHARES)[at].tolist() == own[places].astype(np.float64).tolist()


@given(ANY)
def test_sums_between_wanted_ranks_are_exact(found: list[tuple[int, int]]) -> None:
    found = [(key, value % 2**40) for key, value in found]
    everything = values(found, parts=True)
    counts = Counts.of(everything)
    cells = cells_to_open(counts, (), SHARES)
    opened = Opened.of(counts, cells, [everything.among(cells)])
    for (key, weighed), (low, high) in zip(opened.weighted(), opened.at_shares((0.4, 0.6)).tolist(), strict=True):
        own = np.array([value for other, value in found if other == key])
        inside = own[(own >= low) & (own <= high)]
        count, sums = weighed.sums((weighed.values >= low) & (weighed.values <= high))
        assert (count, sum(sums)) == (len(inside), inside.sum())


@given(ANY, ANY)
def test_counts_of_several_are_those_of_all(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    merged = Counts.merged([Counts.of(values(some, parts=True)), Counts.of(values(others, parts=True))])
    together = Counts.of(values(some + others, parts=True))
    assert merged.cells.tolist() == together.cells.tolist()
    assert merged.counts.tolist() == together.counts.tolist()
    assert merged.sums is not None
    assert together.sums is not None
    assert merged.sums.tolist() == together.sums.tolist()


def test_cells_that_changed_between_two_looks_are_noticed() -> None:
    everything = values([(0, 1000), (0, 2000), (0, 3000)])
    counts = Counts.of(everything)
    cells = cells_to_open(counts, (0.5,), ())
    with pytest.raises(IncompleteCellsError):
        Opened.of(counts, cells, [])
