"""From demand to forecasts: choices that can be stored, and forecasts from them."""

from unittest.mock import Mock

import msgspec
import numpy as np
import pytest

from forecasting import past_events
from forecasting.calendar import DAY_S, HOUR_S, Calendar, PlannedEvent
from forecasting.candidates.curves import FITTED
from forecasting.refresh import Choice, Limits, predict, refresh
from forecasting.series import Series
from tests.support.forecasting.made_up_demand import MONDAY_S

STEP_S = 600
DAY = DAY_S // STEP_S


def daily(days: int) -> Series:
    noise = np.random.default_rng(3).normal(0, 3, days * DAY)
    return Series(0, STEP_S, 100 + 50 * np.sin(2 * np.pi * np.arange(days * DAY) / DAY) + noise)


def test_a_choice_is_stored_and_brought_back() -> None:
    (choice,) = refresh(daily(6), horizons_s=(DAY_S,))
    again = msgspec.json.decode(msgspec.json.encode(choice), type=Choice)
    assert again == choice
    assert {score.candidate for score in again.scores} >= {"last_value", "profile_day", "prophet"}
    np.testing.assert_array_equal(predict(daily(6), again).median, predict(daily(6), choice).median)


def test_a_daily_load_is_forecast_by_its_day_and_its_peak_is_where_it_was() -> None:
    series = daily(10)
    (choice,) = refresh(series, horizons_s=(DAY_S,), limits=Limits(prophet=False))
    forecast = predict(series, choice)
    assert choice.candidate == "profile_day"
    assert choice.skill is not None
    assert choice.skill > 0.2
    assert abs(int(forecast.median.argmax()) - DAY // 4) < DAY // 12


def test_a_new_series_starts_on_last_value() -> None:
    (choice,) = refresh(daily(6).last(30), horizons_s=(7200,))
    assert (choice.candidate, choice.skill) == ("last_value", None)
    assert choice.reason.startswith("Last value is used: the history is too short")


def test_a_forecaster_that_stops_earning_is_demoted_by_itself() -> None:
    days = daily(12).values
    drifting = 100 + np.cumsum(np.random.default_rng(4).normal(0, 3, 16 * DAY))
    (choice,) = refresh(Series(0, STEP_S, days), horizons_s=(3600,), limits=Limits(prophet=False))
    assert choice.candidate == "profile_day"
    (later,) = refresh(
        Series(0, STEP_S, np.concatenate([days, np.maximum(drifting, 0)])),
        horizons_s=(3600,),
        incumbents={3600: choice.candidate},
        limits=Limits(prophet=False),
    )
    assert later.candidate == "last_value"
    assert later.reason.endswith("Profile day no longer earned its use.")


def test_a_planned_event_raises_the_forecast_and_a_past_one_is_not_taken_for_usual() -> None:
    series = daily(10)
    end_s = series.end_s
    launch = Calendar(events=(PlannedEvent("launch", end_s, end_s + 3600, factor=2.0),))
    (choice,) = refresh(series, (DAY_S,), launch, limits=Limits(prophet=False))
    usual, raised = predict(series, choice), predict(series, choice, launch)
    np.testing.assert_allclose(raised.median[:6], 2 * usual.median[:6])
    np.testing.assert_allclose(raised.median[6:], usual.median[6:])
    past = Calendar(events=(PlannedEvent("launch", end_s - DAY_S, end_s - DAY_S + 3600, factor=2.0),))
    values = series.values.copy()
    values[-DAY : -DAY + 6] *= 2
    after = predict(Series(0, STEP_S, values), choice, past)
    np.testing.assert_allclose(after.median, usual.median)


@pytest.mark.parametrize("factor", [0.2, 3.0])
@pytest.mark.parametrize("lasts_s", [300, 3600, 3 * DAY_S])
def test_a_past_event_that_demand_does_not_show_is_not_divided_out(factor: float, lasts_s: int) -> None:
    series = daily(15)
    start_s = series.end_s - 4 * DAY_S
    planned = Calendar(
        events=(
            PlannedEvent("launch", start_s, start_s + lasts_s, factor),
            PlannedEvent("sale", start_s, start_s + DAY_S, factor=2.0),
        )
    )
    times_s = series.times_s()
    sale = np.where((times_s >= start_s) & (times_s < start_s + DAY_S), 2.0, 1.0)
    came = Series(0, STEP_S, series.values * sale)
    np.testing.assert_allclose(past_events.without_events(came, planned), series.values)
    both = Series(0, STEP_S, series.values * planned.factors(times_s, STEP_S))
    np.testing.assert_allclose(past_events.without_events(both, planned), series.values)


def test_what_is_usual_during_an_event_that_nothing_is_to_be_compared_with_is_not_known() -> None:
    series = daily(15).until(DAY // 2)
    over, lasts = (
        past_events.without_events(series, Calendar(events=(PlannedEvent("launch", 3600, end_s, factor=2.0),)))
        for end_s in (7200, DAY_S)
    )
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(over)), np.arange(6, 12))
    np.testing.assert_allclose(lasts[6:], series.values[6:] / 2)


def test_months_of_demand_are_what_prophet_and_the_week_are_compared_over() -> None:
    """Eleven weeks that grow, of which the last is to come, and the two before it are read in steps of ten minutes."""
    hours = np.arange(77 * 24)
    growing = (100 + 50 * np.sin(2 * np.pi * hours / 24)) * np.where(hours // 24 % 7 < 5, 1.0, 0.4) * (1 + hours / 700)
    known, came = growing[: 70 * 24], growing[70 * 24 :]
    recent = Series(MONDAY_S + 56 * DAY_S, STEP_S, np.repeat(known[56 * 24 :], DAY // 24))
    months = Series(MONDAY_S, HOUR_S, known)
    alone, over_months = (refresh(recent, (7 * DAY_S,), months=each)[0] for each in (None, months))
    assert alone.candidate == "seasonal_week"
    assert any(score.note.startswith("Prophet needs 21 days of demand") for score in alone.scores)
    assert over_months.candidate in FITTED and over_months.step_s == HOUR_S
    again = msgspec.json.decode(msgspec.json.encode(over_months), type=Choice)
    assert np.abs(predict(recent, again).median - came).sum() < 0.05 * came.sum()


def test_far_horizons_have_longer_steps() -> None:
    horizons_s = (1800, DAY_S, 7 * DAY_S, 91 * DAY_S)
    choices = refresh(daily(20), horizons_s, limits=Limits(prophet=False))
    assert [choice.step_s for choice in choices] == [600, 600, 3600, 43200]
    assert [len(predict(daily(20), choice)) for choice in choices] == [3, 144, 168, 182]


def test_a_fit_that_cannot_be_made_leaves_the_other_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecasting.candidates.prophet.Prophet.fit", Mock(side_effect=OSError))
    (choice,) = refresh(daily(28), (DAY_S,))
    assert "profile_day" in choice.candidate
    note = next(score.note for score in choice.scores if score.candidate == "prophet")
    assert note == "Prophet could not be fitted within 30 s: OSError."
