"""Forecasts with a day's course."""

import numpy as np

from forecasting.forecast import LEVELS, Forecast

DAY_S = 86_400
RPS = {"chat-large": 2.0, "chat-small": 6.0}  # of a replica


def forecast(start_s: int, scale: float = 1.0, steps: int = 7 * 96) -> Forecast:
    """A day's course in steps of 15 minutes: from 2 to 18 times the scale at P50."""
    median = scale * (10 + 8 * np.sin((start_s + 900 * np.arange(steps)) / DAY_S * 2 * np.pi))
    quantiles = {level: median * (0.5 + level) for level in LEVELS}
    return Forecast(start_s // 900 * 900, 900, quantiles, "seasonal_day", 0.38, "It had the least loss.")
