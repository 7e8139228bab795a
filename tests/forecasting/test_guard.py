"""The guard: the baseline stands in for a candidate that a change has made wrong, and only then."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from forecasting.backtest import backtest
from forecasting.calendar import DAY_S, WEEK_S, Calendar
from forecasting.candidates import CANDIDATES
from forecasting.candidates.curves import Curve
from forecasting.candidates.history import History
from forecasting.guard import NEWEST, Guard, guard, newest
from forecasting.intervals import Band
from forecasting.refresh import Choice, Limits, predict, refresh
from forecasting.series import F64, Series
from tests.support.forecasting.made_up_demand import DAY, daily, series

WITHOUT_FITS = Limits(prophet=False)
HOUR = DAY // 24


def followed(after: F64, horizon_s: int = DAY_S) -> tuple[Choice, Series]:
    """The choice after ten usual days, and those days with what came then."""
    usual = daily(10)
    (choice,) = refresh(series(usual), (horizon_s,), limits=WITHOUT_FITS)
    assert choice.candidate == "profile_day"
    return choice, series(np.concatenate([usual, after]))


@pytest.mark.parametrize(("horizon_s", "name"), [(1800, "Last value"), (DAY_S, "Seasonal day")])
def test_after_a_step_the_baseline_stands_in_with_its_own_band(horizon_s: int, name: str) -> None:
    choice, known = followed(3 * daily(1)[: NEWEST if horizon_s < DAY_S else 2 * NEWEST], horizon_s)
    forecast = predict(known, choice)
    assert (forecast.candidate, forecast.skill) == (name.lower().replace(" ", "_"), 0.0)
    assert forecast.reason == (f"{name} stands in: profile day is more wrong at present than it was in its backtest.")
    last = known.values[-1] if name == "Last value" else known.values[-DAY:]
    steps = horizon_s // known.step_s
    np.testing.assert_array_equal(forecast.median, np.full(steps, last))
    assert choice.guard is not None
    leads = np.arange(1, steps + 1)
    np.testing.assert_array_equal(forecast.quantiles[0.9], choice.guard.band.around(forecast.median[None], leads)[3, 0])


def test_the_candidate_returns_when_its_errors_are_usual_again() -> None:
    odd = daily(1, seed=8)
    odd[:NEWEST] *= 4
    choice, known = followed(odd, horizon_s=1800)
    assert predict(known.until(10 * DAY + NEWEST), choice).candidate == "last_value"
    assert predict(known, choice).candidate == "profile_day"


def test_usual_days_seldom_trip_it() -> None:
    choice, known = followed(daily(3, seed=9), horizon_s=1800)
    made_by = [predict(known.until(10 * DAY + step), choice).candidate for step in range(1, 3 * DAY, 19)]
    assert made_by.count("last_value") <= 0.05 * len(made_by)


def test_a_forecast_that_is_far_too_high_trips_it_where_many_are_far_too_low() -> None:
    uneven = np.exp(np.random.default_rng(5).normal(0.0, 0.6, 14 * 48)).repeat(3)
    usual, after = daily(14) * uneven, daily(1)[: 12 + NEWEST] * 0.1
    (choice,) = refresh(series(usual), (7200,), limits=WITHOUT_FITS)
    assert choice.candidate != "last_value" and choice.guard is not None and choice.guard.limit > 1
    known = series(np.concatenate([usual, after]))
    assert predict(known, choice).candidate == "last_value"
    assert predict(known, replace(choice, guard=replace(choice.guard, too_high=None))).candidate == choice.candidate


def test_a_choice_of_an_older_version_has_no_guard_and_goes_on() -> None:
    choice, known = followed(3 * daily(1)[: 2 * NEWEST])
    stored = msgspec.to_builtins(choice)
    del stored["guard"]
    stored["scores"] = [
        {key: value for key, value in score.items() if key not in ("holds", "proven")} for score in stored["scores"]
    ]
    assert predict(known, msgspec.convert(stored, Choice)).candidate == "profile_day"


def test_the_newest_origins_are_those_whose_horizon_is_over() -> None:
    long, short = (History(series(np.ones(steps)), Calendar(), ahead=3) for steps in (20, 5))
    assert newest(long).tolist() == [12, 13, 14, 15, 16, 17]
    assert newest(short).tolist() == [1, 2]
    assert newest(History(series(np.ones(2)), Calendar(), ahead=3)).tolist() == []


def test_errors_that_are_not_known_do_not_trip_it() -> None:
    guarded = Guard(0.1, 1.0, Band.guess())
    assert not guarded.trips(np.full(3, np.nan), np.ones(3))
    assert not guarded.trips(np.zeros(0), np.zeros(0))
    assert guarded.trips(np.array([np.nan, 9.0]), np.array([1.0, 1.0]))


@pytest.mark.parametrize("values", [np.zeros(400), np.full(400, np.nan)])
def test_a_backtest_without_demand_or_without_errors(values: F64) -> None:
    tested = backtest(History(series(values), Calendar(), 6), CANDIDATES, 6)
    made = guard(tested, "profile_day", Band.guess())
    assert made is None or not made.trips(np.zeros(6), np.zeros(6))


def test_it_also_watches_a_curve_that_was_fitted_within_the_horizon() -> None:
    choice, known = followed(3 * daily(1)[: 2 * NEWEST])
    assert choice.guard is not None
    fitted_s = series(daily(10)).end_s
    flat = Curve(fitted_s, known.start_s, known.step_s, tuple(np.full(12 * DAY, 100.0).tolist()))
    fitted = replace(choice, candidate="prophet", curve=flat, guard=replace(choice.guard, limit=0.6))
    assert predict(known.until(10 * DAY), fitted).candidate == "prophet"
    assert predict(known, fitted).candidate == "seasonal_day"


@pytest.mark.parametrize("before", [0.0, 0.002])
@pytest.mark.parametrize("horizon_s", [DAY_S, WEEK_S])
def test_after_a_launch_the_season_of_no_demand_is_no_upper_bound(before: float, horizon_s: int) -> None:
    idle, launched = np.full(28 * DAY, before), np.full(2 * HOUR, 3000.0)
    (choice,) = refresh(series(idle), (horizon_s,), limits=WITHOUT_FITS)
    known = series(np.concatenate([idle, launched]))
    (anew,) = refresh(known, (horizon_s,), limits=WITHOUT_FITS)
    for each in (choice, anew):
        forecast = predict(known.until(28 * DAY + HOUR), each)
        assert forecast.quantiles[0.9].min() == 3000.0
        assert np.median(forecast.median) < 1
        assert "Demand has left what was forecast of it" in forecast.reason
    # Within the hour, and after its end, it is a burst.
    for odd in (launched[: HOUR // 2], np.append(launched, before)):
        assert predict(series(np.concatenate([idle, odd])), choice).quantiles[0.99][0] < 1
