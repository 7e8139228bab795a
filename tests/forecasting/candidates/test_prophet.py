"""Prophet on the real calendar. Each test fits once or twice in a process of its own, which takes a fraction of a second."""

from pathlib import Path

import numpy as np
import pytest
from cmdstanpy import CmdStanModel

from forecasting.calendar import DAY_S, HOUR_S, Calendar, PlannedEvent
from forecasting.candidates.prophet import FitError, curve
from forecasting.series import F64, Series
from tests.support.forecasting.made_up_demand import MONDAY_S, daily, series

pytestmark = pytest.mark.processes


def hours(days: int, weekend: float = 1.0) -> F64:
    """By the hour: a wave of a day between 50 and 150; on weekends its mirror image, at a share of it."""
    at = np.arange(days * 24)
    wave = np.sin(2 * np.pi * at / 24)
    return np.where(at // 24 % 7 < 5, 100 + 50 * wave, weekend * (100 - 50 * wave)) if weekend != 1 else 100 + 50 * wave


def ahead(values: F64, calendar: Calendar, days: int, start_s: int = MONDAY_S) -> F64:
    """What is expected of the hours after `values`."""
    fitted = curve(Series(start_s, HOUR_S, values), calendar, days * DAY_S, timeout_s=60)
    assert fitted.fitted_s == start_s + len(values) * HOUR_S
    return fitted.at(fitted.fitted_s + np.arange(days * 24) * HOUR_S, HOUR_S)


def test_each_weekdays_hours_are_learned_and_continued() -> None:
    values = hours(49, weekend=0.4)
    np.testing.assert_allclose(
        ahead(values[: 28 * 24 + 15], Calendar(), 14)[: 14 * 24], values[28 * 24 + 15 :][: 14 * 24], rtol=0.05
    )


def test_growth_over_months_goes_on() -> None:
    values = hours(210, weekend=0.4) * (1 + np.arange(210 * 24) / (60 * 24))
    assert ahead(values[: 203 * 24], Calendar(), 7).mean() == pytest.approx(values[203 * 24 :].mean(), rel=0.03)


def test_days_begin_and_clocks_change_where_the_users_are() -> None:
    """Clocks go forward in Berlin on Sunday, 29 March 2026, 84 days after the first Monday."""
    berlin = Calendar("Europe/Berlin")
    at_s = MONDAY_S + np.arange(90 * 24) * HOUR_S
    local = (at_s + berlin.offsets_s(at_s)) // HOUR_S % 24
    values = np.where((local >= 9) & (local < 17), 100.0, 20.0)
    np.testing.assert_allclose(ahead(values[: 80 * 24], berlin, 10), values[80 * 24 :], rtol=0.05)


def test_an_event_of_the_same_name_is_learned_from_the_last_one() -> None:
    """Its hours alone are raised, as much as they were, and the usual day stays as it is."""
    values, calendar = hours(42), []
    for day in (20, 30):
        calendar.append(
            PlannedEvent("campaign", MONDAY_S + (24 * day + 9) * HOUR_S, MONDAY_S + (24 * day + 12) * HOUR_S)
        )
    values[24 * 20 + 9 : 24 * 20 + 12] *= 3
    known = ahead(values[: 28 * 24], Calendar(events=tuple(calendar)), 7)
    usual = hours(35)[28 * 24 :]
    usual[2 * 24 + 9 : 2 * 24 + 12] *= 3
    np.testing.assert_allclose(known, usual, rtol=0.1)


def test_a_holiday_that_comes_is_like_those_that_were() -> None:
    """Thanksgiving 2026 (26 November) after Columbus Day, Labor Day and others: months of history, and none of its name."""
    start_s = 1_779_667_200  # Monday, 25 May 2026
    named = {
        (day.toordinal() - 719_163) * DAY_S
        for day, _ in Calendar(country="US").holidays(start_s, start_s + 200 * DAY_S)
    }
    values = hours(193, weekend=0.4)
    off = np.array([start_s + day * DAY_S in named for day in range(193)])
    values = np.where(np.repeat(off, 24), 0.5 * hours(193), values)
    first = 184 * 24
    said, unsaid = (
        ahead(values[:first], calendar, 7, start_s)[24:48] for calendar in (Calendar(country="US"), Calendar())
    )
    came = values[first + 24 : first + 48]
    assert came.mean() < 60
    assert said.mean() == pytest.approx(came.mean(), rel=0.15)
    assert unsaid.mean() > 1.5 * came.mean()


def test_gaps_neither_lower_a_day_nor_bend_its_hours() -> None:
    values = hours(35)
    values[24 * 20 : 24 * 20 + 8] = values[24 * 25 + 10 : 24 * 26 + 22] = np.nan
    np.testing.assert_allclose(ahead(values, Calendar(), 3), hours(3), rtol=0.05)


def test_a_fit_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a program that never ends: Stan's takes 20 ms, which may be over before its timer is asked."""
    endless = tmp_path / "endless"
    endless.write_text("#!/bin/sh\nexec sleep 600\n")
    endless.chmod(0o700)
    monkeypatch.setattr(CmdStanModel, "exe_file", str(endless))
    with pytest.raises(FitError, match="could not be fitted within 0 s: TimeoutError"):
        curve(Series(MONDAY_S, HOUR_S, hours(35)), Calendar(), DAY_S, timeout_s=0.001)


def test_too_little_history_is_said() -> None:
    with pytest.raises(FitError, match=r"Prophet needs 21 days of demand by the hour, and there are 12\.5\."):
        curve(series(daily(12.5)), Calendar(), DAY_S, timeout_s=60)
