"""A forecast out of several horizons."""

import numpy as np

from controlplane.planning.core.stitch import stitched
from forecasting.forecast import LEVELS, Forecast

MONDAY_S, HOUR_S = 1_795_392_000, 3600


def forecast(start_s: int, step_s: int, steps: int, value: float, name: str) -> Forecast:
    quantiles = {level: np.full(steps, value + level) for level in LEVELS}
    return Forecast(start_s, step_s, quantiles, name, None, name)


def test_near_times_are_of_the_short_horizon_and_far_ones_of_the_long() -> None:
    week = forecast(MONDAY_S, HOUR_S, 168, 100, "week")
    day = forecast(MONDAY_S + HOUR_S, 900, 96, 10, "day")
    two_hours = forecast(MONDAY_S + HOUR_S, 300, 24, 1, "two hours")
    whole = stitched([week, day, two_hours], 900)
    assert whole is not None
    assert (whole.start_s, whole.step_s, len(whole), whole.candidate) == (MONDAY_S, 900, 168 * 4, "day")
    assert whole.median.tolist() == [100.5] * 4 + [10.5] * 96 + [100.5] * (167 * 4 - 96)
    assert whole.quantiles[0.9][4] == 10.9


def test_a_fine_forecast_alone_is_used_as_it_is() -> None:
    only = stitched([forecast(MONDAY_S, 300, 24, 1, "two hours")], 900)
    assert only is not None
    assert (only.step_s, len(only)) == (300, 24)
    assert stitched([], 900) is None


def test_a_gap_between_two_takes_what_follows_it() -> None:
    early, late = forecast(MONDAY_S, 900, 4, 1, "early"), forecast(MONDAY_S + 2 * HOUR_S, HOUR_S, 24, 2, "late")
    whole = stitched([early, late], 900)
    assert whole is not None
    assert whole.median.tolist() == [1.5] * 4 + [2.5] * (25 * 4)
