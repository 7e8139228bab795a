"""A series as the steps of a chart: gaps stay gaps, and resets are counted."""

import numpy as np
import pytest

from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.metrics.core.steps import StepValue, fitting, interval_ns, means, rates

S = 10**9
EDGES = np.arange(0, 151, 30, dtype=np.int64) * S


def columns(points: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([time * S for time, _ in points], np.int64), np.array([value for _, value in points], np.float64)


def test_a_gauge_is_its_mean_in_each_step_and_a_gap_where_it_was_not_seen_or_had_ended() -> None:
    times, values = columns([(10, 1), (25, 3), (30, 5), (100, 7), (115, STALE), (130, STALE)])
    assert means(times, values, EDGES) == [StepValue(3.0), None, None, StepValue(7.0), None]


def test_a_counter_is_its_rate_and_a_gap_is_no_rate() -> None:
    times, values = columns([(0, 100), (15, 115), (30, 130), (45, 160), (60, 190), (125, 200), (140, 260)])
    found = rates(times, values, np.zeros_like(times), EDGES)
    assert found == [StepValue(1.0), StepValue(2.0), None, None, StepValue(4.0)]


def test_a_steady_counter_has_a_steady_rate_wherever_its_samples_lie() -> None:
    times, values = columns([(15 * n + 4, 30.0 * n) for n in range(11)])
    found = rates(times, values, np.zeros_like(times), EDGES)
    assert [step and round(step.value, 9) for step in found] == [2.0] * 5


def test_a_counter_that_fell_began_again_and_its_rate_is_never_below_zero() -> None:
    times, values = columns([(0, 100), (15, 115), (30, 3), (45, 18), (60, 33)])
    found = rates(times, values, np.zeros_like(times), EDGES[:3])
    assert found == [StepValue(18 / 30, resets=1), StepValue(1.0)]


def test_deltas_count_over_the_whole_step() -> None:
    times, values = columns([(10, 30), (20, 30)])
    assert rates(times, values, np.zeros_like(times), EDGES[:3], delta=True) == [StepValue(2.0), None]


def test_a_step_holds_two_samples_of_the_slowest_series() -> None:
    choices = [10 * S, 30 * S, 60 * S, 120 * S]
    assert fitting(15 * S, choices, [15 * S, 1 * S]) == 30 * S
    assert fitting(15 * S, choices, [int(15.02 * S)]) == 60 * S
    assert fitting(60 * S, choices, []) == 60 * S
    assert fitting(15 * S, choices, [3600 * S]) == 120 * S


@pytest.mark.parametrize(("times", "expected"), [([], None), ([5], None), ([0, 15, 30, 300], 15)])
def test_the_interval_is_the_usual_one_whatever_the_gaps(times: list[int], expected: int | None) -> None:
    assert interval_ns(np.array(times, np.int64)) == expected
