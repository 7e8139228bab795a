"""Counts by time, against sums over the blocks that were put in."""

import random

import numpy as np
import pytest

from controlplane.slo.core.count_plan import Block
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.tallies import Ring, Tallies, WindowSums

HOUR_S, DAY_S = 3_600, 86_400
START_S = 400_000 * HOUR_S
SERIES = ("up", ())


def ring(capacity: int, head: int, counts: list[int]) -> Ring:
    """With one row, of which all are bad, that ends at `head`."""
    made = Ring(10, capacity)
    made.resize([], 1)
    made.advance(head)
    made.put(np.array([0]), head - len(counts), np.array([[counts], [counts]], np.int32))
    return made


@pytest.mark.parametrize(
    ("low", "high", "total"),
    [(7, 11, 1_111), (8, 11, 1_110), (7, 10, 111), (9, 10, 100), (9, 9, 0), (0, 99, 1_111), (11, 12, 0), (6, 7, 0)],
)
def test_a_ring_adds_up_half_open_ranges_of_the_steps_it_has(low: int, high: int, total: int) -> None:
    bad, all_ = ring(4, 11, [1, 10, 100, 1_000]).sums(low, high)
    assert (bad.tolist(), all_.tolist()) == ([total], [total])


@pytest.mark.parametrize(("head", "left"), [(10, 1_111), (11, 1_111), (12, 1_110), (14, 1_000), (15, 0), (99, 0)])
def test_a_ring_that_advances_drops_the_oldest_steps(head: int, left: int) -> None:
    made = ring(4, 11, [1, 10, 100, 1_000])
    made.advance(head)
    assert made.head == max(head, 11)
    assert made.sums(0, 1_000)[1].tolist() == [left]


@pytest.mark.parametrize(
    ("first", "steps"),
    [
        (4, [0, 0, 0, 0]),
        (5, [3, 0, 0, 0]),
        (6, [2, 3, 0, 0]),
        (7, [1, 2, 3, 0]),
        (8, [0, 1, 2, 3]),
        (9, [0, 0, 1, 2]),
        (10, [0, 0, 0, 1]),
        (11, [0, 0, 0, 0]),
    ],
)
def test_a_ring_takes_only_the_steps_that_it_has_room_for(first: int, steps: list[int]) -> None:
    made = ring(4, 11, [])
    made.put(np.array([0]), first, np.array([[[1, 2, 3]]] * 2, np.int32))
    assert [made.sums(step, step + 1)[1].item() for step in range(7, 11)] == steps


def filled(length_s: int, seed: int = 1) -> tuple[Tallies, Block]:
    block = np.array([random.Random(seed).choices(range(5), k=length_s // 10)] * 2, np.int32)
    tallies = Tallies(48)
    tallies.advance(START_S + length_s - 1)
    tallies.put({SERIES: block}, ["up"], START_S, START_S + length_s)
    return tallies, block


@pytest.mark.parametrize("length_s", [10, 300, 3_600, 21_600, 21_660, DAY_S])
def test_a_window_is_the_sum_of_its_last_steps(length_s: int) -> None:
    tallies, block = filled(DAY_S)
    _, total = tallies.window(length_s, START_S + DAY_S - 1)
    assert total.tolist() == [block[1, -(length_s // 10) :].sum()]


def test_an_hour_is_the_sum_of_its_steps() -> None:
    tallies, block = filled(3 * HOUR_S)
    hours = [tallies.hour(START_S // HOUR_S + hour, 0)[1] for hour in range(-1, 4)]
    assert hours == [0, *block[1].reshape(3, -1).sum(axis=1).tolist(), 0]


def test_a_part_of_an_hour_replaces_itself_in_its_hour() -> None:
    tallies, block = filled(2 * HOUR_S)
    again = np.full((2, 60), 7, np.int32)
    tallies.put({SERIES: again}, ["up"], START_S + HOUR_S - 300, START_S + HOUR_S + 300)
    block[:, 330:390] = again
    hours = [tallies.hour(START_S // HOUR_S + hour, 0)[1] for hour in (0, 1)]
    assert hours == block[1].reshape(2, -1).sum(axis=1).tolist()


@pytest.mark.parametrize(("late_s", "first_hour"), [(0, 0), (1, 1), (HOUR_S, 1), (HOUR_S + 1, 2)])
def test_since_a_time_only_whole_hours_count(late_s: int, first_hour: int) -> None:
    tallies, block = filled(3 * HOUR_S)
    _, total = tallies.since(START_S + late_s, START_S + 3 * HOUR_S - 1)
    assert total.tolist() == [block[1, first_hour * 360 :].sum()]


def test_a_series_that_is_not_in_the_blocks_had_no_events() -> None:
    tallies, _ = filled(HOUR_S)
    tallies.put({}, ["up"], START_S, START_S + HOUR_S)
    assert tallies.window(HOUR_S, START_S + HOUR_S - 1)[1].tolist() == [0]


def test_a_series_of_another_definition_stays_as_it_is() -> None:
    tallies, block = filled(HOUR_S)
    tallies.put({("other", ()): block + 1}, ["other"], START_S, START_S + HOUR_S)
    assert tallies.window(HOUR_S, START_S + HOUR_S - 1)[1].tolist() == [block[1].sum(), block[1].sum() + 360]


def test_an_hour_counted_before_may_be_set() -> None:
    tallies, block = filled(HOUR_S)
    for series in (SERIES, ("new", ("gold",))):
        tallies.put_hours(series, START_S // HOUR_S - 5, 3, 40)
    assert [tallies.hour(START_S // HOUR_S - 5, row) for row in (0, 1)] == [(3, 40), (3, 40)]
    assert [tallies.hour(START_S // HOUR_S, row)[1] for row in (0, 1)] == [block[1].sum(), 0]


@pytest.mark.parametrize(("hours", "capacity"), [(47, 50), (48, 50), (49, 51), (100, 102)])
def test_the_hours_reach_further_back_and_lose_nothing(hours: int, capacity: int) -> None:
    tallies, block = filled(3 * HOUR_S)
    tallies.reach(hours)
    assert tallies.hours.capacity == capacity
    found = [tallies.hour(START_S // HOUR_S + hour, 0)[1] for hour in range(3)]
    assert found == block[1].reshape(3, -1).sum(axis=1).tolist()
    tallies.put_hours(SERIES, START_S // HOUR_S + 3 - capacity, 1, 9)
    assert tallies.hour(START_S // HOUR_S + 3 - capacity, 0) == (1, 9)


def test_other_definitions_are_forgotten() -> None:
    tallies, block = filled(HOUR_S)
    tallies.put({("other", ()): block + 1}, ["other"], START_S, START_S + HOUR_S)
    tallies.keep(["other"])
    assert tallies.rows == {("other", ()): 0}
    assert tallies.window(HOUR_S, START_S + HOUR_S - 1)[1].tolist() == [block[1].sum() + 360]


def test_series_of_a_definition_are_forgotten_once_they_have_no_events() -> None:
    tallies, block = filled(HOUR_S)
    empty, other = ("up", ("gold",)), ("other", ())
    tallies.put({empty: np.zeros_like(block), SERIES: block}, ["up"], START_S, START_S + HOUR_S)
    tallies.put({other: np.zeros_like(block)}, ["other"], START_S, START_S + HOUR_S)
    tallies.forget_empty("up")
    assert tallies.rows == {SERIES: 0, other: 1}
    assert tallies.window(HOUR_S, START_S + HOUR_S - 1)[1].tolist() == [block[1].sum(), 0]


def test_windows_of_a_series_are_counted_at_one_time_and_of_an_unknown_one_are_empty() -> None:
    tallies, block = filled(3 * HOUR_S)
    other = ("up", ("gold",))
    tallies.put_hours(other, START_S // HOUR_S, 3, 40)
    sums = WindowSums(tallies, START_S + 3 * HOUR_S - 1)
    assert (sums.splits("up"), sums.splits("absent")) == ([(), ("gold",)], ())
    for _ in range(2):  # the second time from memory
        assert sums.window(SERIES, 300) == Counts(*block[:, -30:].sum(axis=1).tolist())
        assert sums.since(SERIES, START_S + HOUR_S) == Counts(*block[:, 360:].sum(axis=1).tolist())
    assert (sums.hour(other, START_S // HOUR_S), sums.since(other, START_S)) == (Counts(3, 40), Counts(3, 40))
    absent = ("absent", ())
    assert {sums.window(absent, 300), sums.since(absent, START_S), sums.hour(absent, START_S // HOUR_S)} == {Counts()}
