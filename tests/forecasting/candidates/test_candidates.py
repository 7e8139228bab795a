"""What every candidate keeps to, and what each of them is good at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.calendar import DAY_S, Calendar
from forecasting.candidates import CANDIDATES
from forecasting.candidates.curves import Curve, prophet
from forecasting.candidates.history import Candidate, History
from forecasting.series import F64
from tests.support.forecasting.made_up_demand import DAY, MONDAY_S, STEP_S, daily, series
from tests.support.soak import sized

EVERY: dict[str, Candidate] = {
    **CANDIDATES,
    "prophet": lambda history, origins, leads: prophet(history, CURVES, origins, leads),
}
CURVES = tuple(
    Curve(MONDAY_S + day * DAY_S, MONDAY_S, STEP_S, tuple((daily(12, seed=day) - day).tolist())) for day in (2, 5)
)
LEADS = np.array([1, 7, DAY, 3 * DAY])


def history(values: F64, timezone: str = "UTC", start_s: int = MONDAY_S, ahead: int = 3 * DAY) -> History:
    return History(series(values, start_s), Calendar(timezone), ahead)


def path(name: str, values: F64, leads: list[int], **how: object) -> F64:
    """What a candidate expects at the end of the values."""
    known = history(values, **how)  # type: ignore[arg-type]
    return EVERY[name](known, np.array([known.steps]), np.array(leads))[0]


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=sized(6, soak=60), deadline=None)
@given(origin=st.integers(1, 9 * DAY), gaps=st.integers(0, 300), factor=st.floats(0, 50))
def test_nothing_that_comes_after_an_origin_changes_its_forecast(
    name: str, origin: int, gaps: int, factor: float
) -> None:
    values = daily(9)
    values[np.random.default_rng(gaps).integers(0, len(values), gaps)] = np.nan
    later = values.copy()
    later[origin:] *= factor
    origins = np.arange(max(1, origin - 5), origin + 1)
    np.testing.assert_array_equal(
        EVERY[name](history(values), origins, LEADS), EVERY[name](history(later), origins, LEADS)
    )


@pytest.mark.parametrize("name", EVERY)
def test_the_last_origin_is_forecast_as_it_was_within_a_backtest(name: str) -> None:
    values = daily(9)
    origins = np.arange(len(values) - 40, len(values) + 1)
    together = EVERY[name](history(values), origins, LEADS)
    alone = EVERY[name](history(values), origins[-1:], LEADS)
    np.testing.assert_allclose(together[-1], alone[0], rtol=0.02)


def test_the_last_value_is_the_last_one_measured() -> None:
    assert path("last_value", np.array([1.0, 7.0, np.nan]), [1, 9]).tolist() == [7, 7]


def test_a_level_is_smoothed_where_demand_is_noise_and_follows_where_it_moves() -> None:
    noise = 100 + np.random.default_rng(1).normal(0, 20, 2000)
    noise[-1] = 180
    assert path("level_trend", noise, [5])[0] == pytest.approx(100, abs=8)
    moving = np.cumsum(np.random.default_rng(1).normal(0, 20, 2000)) + 5000
    assert path("level_trend", moving, [1])[0] == pytest.approx(moving[-1], abs=40)


def test_a_seasonal_candidate_repeats_the_last_known_day_or_week_and_looks_past_gaps() -> None:
    values = np.arange(8.0 * DAY)
    assert path("seasonal_day", values, [1, DAY + 1]).tolist() == [7 * DAY, 7 * DAY]
    assert path("seasonal_week", values, [1, 2]).tolist() == [DAY, DAY + 1]
    values[7 * DAY] = np.nan
    assert path("seasonal_day", values, [1]).tolist() == [6 * DAY]
    assert np.isnan(path("seasonal_week", values[: 3 * DAY], [1])).all()


def test_a_day_is_a_day_of_the_clock_when_clocks_change() -> None:
    """On Sunday, 29 March 2026, clocks in Berlin go from 2:00 to 3:00; the peak is at 9:00 local time."""
    start_s = 1774310400  # Tuesday, 24 March 2026, 00:00 UTC
    times_s = start_s + np.arange(5 * DAY + DAY // 2) * STEP_S
    local_s = times_s + Calendar("Europe/Berlin").offsets_s(times_s)
    values = np.where(local_s % DAY_S // 3600 == 9, 100.0, 10.0)
    for name in ("seasonal_day", "profile_day"):
        forecast = path(name, values, list(range(1, DAY + 1)), timezone="Europe/Berlin", start_s=start_s)
        ahead_s = times_s[-1] + STEP_S * np.arange(1, DAY + 1)
        hours = (ahead_s + Calendar("Europe/Berlin").offsets_s(ahead_s)) % DAY_S // 3600
        assert set(hours[forecast > 90]) == {9}


def test_a_profile_is_corrected_by_the_newest_errors() -> None:
    values = daily(9, noise=0.5)
    values[-2 * DAY :] += np.convolve(np.random.default_rng(2).normal(0, 5, 2 * DAY), np.ones(20), "same")
    raised = path("profile_day", values, [1])[0]
    assert raised == pytest.approx(values[-1], abs=15)


@pytest.mark.parametrize(
    ("name", "days"), [("profile_week", 35), ("profile_week", 33), ("profile_week", 21), ("profile_day", 4)]
)
@pytest.mark.parametrize("drift", [-0.2, 0.2])
def test_what_drifts_is_followed_also_where_the_history_is_whole_weeks(name: str, days: int, drift: float) -> None:
    steps = np.arange((days + 1) * DAY)
    came = (100 + 50 * np.sin(2 * np.pi * steps / DAY)) * np.exp(drift * steps / (7 * DAY))
    ahead = [1, 3, 6]
    expected = path(name, came[: days * DAY], ahead)
    assert expected == pytest.approx(came[days * DAY :][np.array(ahead) - 1], rel=0.02)


def test_an_incident_of_an_hour_does_not_return_the_next_day() -> None:
    values = daily(9)
    values[-DAY : -DAY + 6] *= 10
    forecast = path("profile_day", values, [1, 2, 3, 4, 5, 6])
    assert forecast == pytest.approx([100] * 6, abs=20)


def test_what_counts_as_an_outlier_does_not_depend_on_what_comes_later() -> None:
    values, origin = daily(9), 5 * DAY + DAY // 2
    values[5 * DAY + 10] *= 3
    later = values.copy()
    later[origin:] = np.random.default_rng(1).uniform(0, 1000, len(values) - origin)
    for name, lead in (("profile_day", DAY // 2 + 11), ("profile_week", 7 * DAY)):
        known, noisy = (
            EVERY[name](history(each, ahead=7 * DAY), np.array([origin]), np.array([lead])) for each in (values, later)
        )
        np.testing.assert_array_equal(known, noisy)


def test_one_outlier_at_the_end_moves_a_profile_little() -> None:
    values = daily(9)
    values[-1] *= 10
    assert path("profile_day", values, [1])[0] == pytest.approx(100, abs=30)
    assert path("last_value", values, [1])[0] > 900


def test_a_forecast_from_a_curve_ends_with_the_curve() -> None:
    values = daily(9)
    assert np.isfinite(path("prophet", values, [1, 3 * DAY])).all()
    assert np.isnan(path("prophet", values, [3 * DAY + 1], ahead=4 * DAY)).all()
