"""Series: what they refuse, and means over longer steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from forecasting.series import MAX_DEMAND, Series, SeriesError, resampled, usable

NAN = float("nan")


@pytest.mark.parametrize(
    ("start_s", "step_s", "values", "message"),
    [
        (0, 0, np.zeros(3), "step_s is 0"),
        (7, 60, np.zeros(3), "start_s is 7: give a multiple of step_s, 60 s"),
        (0, 60, np.zeros((2, 2)), "values have 2 dimensions"),
    ],
)
def test_a_series_that_cannot_be_is_refused(start_s: int, step_s: int, values: np.ndarray, message: str) -> None:
    with pytest.raises(SeriesError, match=message):
        Series(start_s, step_s, values)


def test_means_start_and_end_at_whole_steps_and_leave_gaps_out() -> None:
    minutes = Series(240, 60, np.array([9.0, 1, 2, 3, NAN, 5, NAN, NAN, NAN, NAN, NAN, 7, 7]))
    fives = resampled(minutes, 300)
    assert (fives.start_s, fives.step_s) == (300, 300)
    np.testing.assert_array_equal(fives.values, [2.75, NAN])


def test_longer_steps_are_multiples() -> None:
    with pytest.raises(SeriesError, match="step_s is 90: give a multiple of the series' own step, 60 s"):
        resampled(Series(0, 60, np.zeros(9)), 90)


@given(npst.arrays(np.float64, st.integers(0, 50), elements=st.floats()), st.integers(1, 7), st.integers(0, 20))
def test_longer_steps_keep_the_mean_of_what_was_measured(values: np.ndarray, factor: int, start: int) -> None:
    series, refused = usable(Series(start * 60, 60, values))
    assert refused == int(((values < 0) | (values > MAX_DEMAND)).sum())
    longer = resampled(series, factor * 60)
    for index, mean in enumerate(longer.values):
        first = (longer.start_s - series.start_s) // 60 + index * factor
        measured = series.values[first : first + factor]
        measured = measured[~np.isnan(measured)]
        assert np.isnan(mean) == (len(measured) == 0)
        if len(measured):
            assert mean == pytest.approx(measured.mean())


def test_what_was_known_at_a_time_is_a_series_too() -> None:
    series = Series(600, 60, np.arange(5.0))
    assert series.end_s == 900
    assert series.until(2).end_s == 720
    assert series.last(2).start_s == 780
    np.testing.assert_array_equal(series.last(2).times_s(), [780, 840])
    assert len(series.last(99)) == 5
