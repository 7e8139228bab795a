"""Made-up demand whose best forecast is known."""

import numpy as np

from forecasting.calendar import DAY_S
from forecasting.series import F64, Series

STEP_S = 600
DAY = DAY_S // STEP_S
"""How many steps a day has."""
MONDAY_S = 1_767_571_200
"""Monday, 5 January 2026, 00:00 UTC."""


def daily(days: float, noise: float = 3.0, seed: int = 3) -> F64:
    """A wave of one day around 100, between 50 and 150, with normal noise."""
    steps = np.arange(round(days * DAY))
    return 100 + 50 * np.sin(2 * np.pi * steps / DAY) + np.random.default_rng(seed).normal(0, noise, len(steps))


def series(values: F64, start_s: int = MONDAY_S) -> Series:
    return Series(start_s, STEP_S, values)
