"""The growth of counters: resets, starts, gaps and deltas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.metrics.core.counters import increase, increases
from controlplane.telemetry.metrics.core.stale import STALE

S = 10**9


def grew(
    points: list[tuple[int, float]], start: int = 0, window: tuple[int, int] = (0, 100), **named: object
) -> object:
    times = np.array([time * S for time, _ in points], np.int64)
    values = np.array([value for _, value in points], np.float64)
    starts = np.full(len(points), start * S, np.int64)
    return increase(times, values, starts, from_ns=window[0] * S, to_ns=window[1] * S, **named)  # type: ignore[arg-type]


def test_a_steady_counter_grew_by_its_difference_over_the_time_it_was_seen() -> None:
    found = grew([(10, 5), (20, 7), (30, 10)])
    assert (found.amount, found.to_ns - found.from_ns, found.resets) == (5, 20 * S, 0)  # type: ignore[attr-defined]


def test_a_counter_that_fell_began_again_at_zero() -> None:
    found = grew([(10, 100), (20, 104), (30, 3), (40, 5)])
    assert (found.amount, found.resets) == (4 + 3 + 2, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("values", "starts", "amount", "resets"),
    [
        ([5.0, 8.0], [S, 15 * S], 8, 1),  # a later start is a reset even where the value rose
        ([5.0, 8.0, 9.0], [S, S + 3, S + 1], 4, 0),  # a start that jitters is none
        # A counter that was made while its page was read: the sample has the time at which the reading began.
        ([2.0, 2.0], [10 * S + 5, 10 * S + 5], 2, 0),
    ],
)
def test_a_start_is_a_reset_where_it_is_clearly_later(
    values: list[float], starts: list[int], amount: float, resets: int
) -> None:
    times = np.arange(10, 10 * len(values) + 1, 10, np.int64) * S
    found = increase(times, np.array(values), np.array(starts, np.int64), from_ns=5 * S, to_ns=100 * S)
    assert found is not None and (found.amount, found.resets) == (amount, resets)


def test_a_start_just_after_the_first_sample_is_no_reset() -> None:
    """A counter that was made while its page was read: the sample has the time at which the reading began."""
    times = np.array([10, 20], np.int64) * S
    starts = np.full(2, 10 * S + 5, np.int64)
    found = increase(times, np.array([2.0, 2.0]), starts, from_ns=5 * S, to_ns=100 * S)
    assert found is not None and (found.amount, found.resets, found.from_ns) == (2.0, 0, 10 * S)


def test_the_last_sample_before_the_window_is_what_the_counter_had() -> None:
    found = grew([(5, 2), (15, 6), (25, 7)], window=(10, 20))
    assert (found.amount, found.from_ns, found.to_ns) == (4, 10 * S, 15 * S)  # type: ignore[attr-defined]


def test_one_sample_says_nothing_unless_it_says_since_when_it_counts() -> None:
    assert grew([(10, 5)]) is None
    assert grew([]) is None
    found = grew([(10, 5)], start=4)
    assert (found.amount, found.from_ns) == (5, 4 * S)  # type: ignore[attr-defined]
    assert grew([(10, 5)], start=4, window=(6, 20)) is None, "it began before the window: how much of it was in there?"


def test_a_gap_is_passed_over_and_never_a_zero() -> None:
    found = grew([(10, 5), (20, STALE), (30, 9)])
    assert (found.amount, found.resets) == (4, 0)  # type: ignore[attr-defined]
    assert grew([(10, STALE), (20, STALE)]) is None


def test_deltas_sum_up() -> None:
    found = grew([(10, 5), (20, 7), (30, 1)], window=(15, 30), delta=True)
    assert (found.amount, found.resets) == (8, 0)  # type: ignore[attr-defined]


def test_steps_of_a_chart_have_gaps_where_nobody_looked() -> None:
    times = np.array([10, 20, 80, 90], np.int64) * S
    edges = np.array([0, 10, 20, 30, 70, 80, 90], np.int64) * S
    found = increases(times, np.array([1.0, 3.0, 9.0, 10.0]), np.zeros(4, np.int64), edges)
    assert [one and one.amount for one in found] == [None, 2, None, None, None, 1]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=8), min_size=1, max_size=6))
def test_whatever_the_resets_a_counter_grew_by_all_that_was_added(lives: list[list[int]]) -> None:
    """After each reset the counter begins at zero, and its first sample has the start."""
    times, values, starts, clock, added = [], [], [], 1, 0
    for life in lives:
        begin, total = clock, 0
        for more in life:
            clock, total, added = clock + 1, total + more, added + more
            times.append(clock * S)
            values.append(float(total))
            starts.append(begin * S)
        clock += 1
    found = increase(
        np.array(times, np.int64), np.array(values), np.array(starts, np.int64), from_ns=0, to_ns=clock * S
    )
    assert found is not None and found.amount == added and found.resets == len(lives) - 1


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=50), st.data())
def test_increases_of_adjoining_windows_add_up(values: list[float], data: st.DataObject) -> None:
    times, starts = np.arange(1, len(values) + 1, dtype=np.int64) * S, np.zeros(len(values), np.int64)
    cut = data.draw(st.integers(1, len(values))) * S
    column = np.array(values)
    whole = increase(times, column, starts, from_ns=0, to_ns=1000 * S)
    parts = [increase(times, column, starts, from_ns=low, to_ns=high) for low, high in ((0, cut), (cut, 1000 * S))]
    assert whole is not None
    assert np.isclose(sum(part.amount for part in parts if part), whole.amount)
