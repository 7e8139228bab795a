"""The points that are kept of forecasts."""

import numpy as np

from controlplane.planning.core.forecast_record import point, with_point
from forecasting.forecast import LEVELS, Forecast

MONDAY_S = 1_795_392_000


def forecast(start_s: int, step_s: int, steps: int) -> Forecast:
    values = np.arange(steps, dtype=float)
    return Forecast(start_s, step_s, {level: values + level for level in LEVELS}, "seasonal_day", 0.3, "a test")


def test_a_point_is_one_whole_horizon_ahead_every_half_hour() -> None:
    points = [point(forecast(MONDAY_S + 300 * late, 300, 6)) for late in range(7)]
    assert [made[0] for made in points] == [MONDAY_S] + 6 * [MONDAY_S + 1800]
    assert point(forecast(MONDAY_S, 3600, 168))[0] == MONDAY_S + 167 * 3600, "long steps are all kept"
    assert points[1] == [MONDAY_S + 1800, MONDAY_S + 300, "seasonal_day", 5.1, 5.5, 5.9]


def test_the_first_point_of_a_step_stays() -> None:
    early, late = [MONDAY_S, MONDAY_S - 1800, "a", 1, 2, 3], [MONDAY_S, MONDAY_S - 300, "b", 4, 5, 6]
    assert with_point([early], late) == [early]
    later = [MONDAY_S + 1800, MONDAY_S, "a", 1, 2, 3]
    assert with_point([later], early) == [early, later]
