"""Histograms of all kinds as classic buckets."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.metrics.core import buckets


def test_explicit_buckets_become_cumulative() -> None:
    assert buckets.explicit([1, 5], [2, 3, 4]) == [(1, 2), (5, 5), (math.inf, 9)]


@pytest.mark.parametrize(
    "bounds, counts", [([1], [1]), ([2, 1], [1, 1, 1]), ([1, 1], [0, 0, 0]), ([math.nan], [1, 1]), ([1], [1, -1])]
)
def test_buckets_that_make_no_sense_are_refused(bounds: list[float], counts: list[float]) -> None:
    with pytest.raises(ValueError, match="histogram"):
        buckets.explicit(bounds, counts)


def test_an_exponential_bucket_ends_where_its_base_says() -> None:
    found = buckets.exponential(0, 1, 0.0, {0: 2, 1: 3}, {0: 4})
    assert found == [(-1, 4), (0, 5), (1, 5), (2, 7), (4, 10), (math.inf, 10)]


def test_prometheus_counts_its_buckets_one_further() -> None:
    assert buckets.native_index([(1, 2), (2, 1)], [5, 6, 7]) == {0: 5, 1: 6, 4: 7}
    with pytest.raises(ValueError, match="fit together"):
        buckets.native_index([(0, 3)], [1])


@settings(deadline=None)
@given(st.integers(-4, 20), st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=200))
def test_every_observation_stays_within_its_bounds_at_any_scale(scale: int, observed: list[float]) -> None:
    base = 2.0 ** (2.0**-scale)
    counts: dict[int, float] = {}
    for value in observed:
        index = math.ceil(math.log(value, base)) - 1
        counts[index] = counts.get(index, 0) + 1
    found = buckets.exponential(scale, 0, 0, counts, {})
    assert found[-1] == (math.inf, len(observed)) and len(found) <= buckets.MAX_BOUNDS + 3
    assert all(low[0] < high[0] and low[1] <= high[1] for low, high in pairwise(found))
    for bound, count in found:
        # rounding of the logarithm may move what lies on a bound to the bucket beside it
        assert sum(v < bound * (1 - 1e-6) for v in observed) <= count <= sum(v <= bound * (1 + 1e-6) for v in observed)


@settings(deadline=None)
@given(
    st.integers(-100, 100),
    st.floats(),
    st.floats(),
    st.dictionaries(st.integers(-(2**40), 2**40), st.floats(), max_size=5),
)
def test_hostile_histograms_are_refused_or_bounded(
    scale: int, zero: float, threshold: float, counts: dict[int, float]
) -> None:
    try:
        found = buckets.exponential(scale, zero, threshold, counts, {})
    except ValueError:
        return
    assert len(found) <= buckets.MAX_BOUNDS + 3
