"""Prophet on the real calendar. Each test fits once or twice in a process of its own, which takes a fraction of a second."""

import numpy as np
import pytest

from forecasting.calendar import DAY_S, Calendar, PlannedEvent
from forecasting.candidates.prophet import FIT_STEP_S, FitError, curve
from tests.support.forecasting.made_up_demand import DAY, MONDAY_S, STEP_S, daily, series

pytestmark = pytest.mark.processes


def test_the_day_is_learned_and_continued() -> None:
    fitted = curve(series(daily(12)), Calendar(), 3 * DAY_S, timeout_s=60)
    assert (fitted.fitted_s, fitted.step_s) == (MONDAY_S + 12 * DAY_S, FIT_STEP_S)
    ahead_s = fitted.fitted_s + np.arange(DAY) * STEP_S
    expected = 100 + 50 * np.sin(2 * np.pi * (np.arange(DAY) + 0.5) / DAY)
    assert np.abs(fitted.at(ahead_s, STEP_S) - expected).max() < 10


def test_an_event_of_the_same_name_is_learned_from_the_last_one() -> None:
    values = daily(12)
    values[8 * DAY : 9 * DAY] += 80
    first, second = (PlannedEvent("campaign", MONDAY_S + day * DAY_S, MONDAY_S + (day + 1) * DAY_S) for day in (8, 13))
    noon_s = np.array([MONDAY_S + 13 * DAY_S + DAY_S // 2])
    known = curve(series(values), Calendar(events=(first, second)), 3 * DAY_S, timeout_s=60).at(noon_s, STEP_S)[0]
    unknown = curve(series(values), Calendar(), 3 * DAY_S, timeout_s=60).at(noon_s, STEP_S)[0]
    assert known > unknown + 50


def test_holidays_of_a_country_are_known() -> None:
    """Martin Luther King's day is Monday, 19 January 2026: two weeks after the first day of the series."""
    values = daily(15)
    values[14 * DAY :] *= 0.3
    holiday = curve(series(values), Calendar(country="US"), DAY_S, timeout_s=60)
    without = curve(series(values), Calendar(), DAY_S, timeout_s=60)
    noons_s = MONDAY_S + np.array([13.25, 14.25]) * DAY_S
    sunday, monday = holiday.at(noons_s.astype(np.int64), STEP_S)
    _, unexplained = without.at(noons_s.astype(np.int64), STEP_S)
    assert monday < 0.6 * sunday
    assert unexplained > monday + 20


def test_a_fit_that_takes_too_long_is_ended() -> None:
    """Of four weeks, because a fit of a few days may be done before its timer is asked."""
    with pytest.raises(FitError, match="could not be fitted within 0 s: TimeoutError"):
        curve(series(daily(28)), Calendar(), DAY_S, timeout_s=0.001)


def test_too_little_history_is_said() -> None:
    with pytest.raises(FitError, match=r"Prophet needs 2 days of demand, and there are 1\.5\."):
        curve(series(daily(1.5)), Calendar(), DAY_S, timeout_s=60)
