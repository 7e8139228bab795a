"""Which points of a forecast are kept to be held against what came."""

import datetime as dt
from collections.abc import Sequence

from forecasting.forecast import Forecast

SPACING_S = 1800
"""One point in so long, or in a step where that is longer: more would say the same of longer ahead."""

Point = list[int | float | str]
"""Start of the step, when it was forecast (both s since the epoch), candidate, P10, P50, P90."""


def point(forecast: Forecast) -> Point:
    """The last step of the forecast that starts at a multiple of the spacing: it was forecast the whole horizon ahead."""
    spacing_s = max(SPACING_S, forecast.step_s)
    last_s = forecast.end_s - forecast.step_s
    start_s = max(forecast.start_s, last_s // spacing_s * spacing_s)
    index = (start_s - forecast.start_s) // forecast.step_s
    values = (float(f"{forecast.quantiles[level][index]:.6g}") for level in (0.1, 0.5, 0.9))
    return [forecast.start_s + index * forecast.step_s, forecast.start_s, forecast.candidate, *values]


def day_of(point: Point) -> dt.date:
    """The day (UTC) of its step."""
    return dt.datetime.fromtimestamp(int(point[0]), dt.UTC).date()


def with_point(points: Sequence[Point], added: Point) -> list[Point]:
    """The points by step, with this one. Where its step has one, the earlier stays: it was made the whole horizon ahead."""
    if any(known[0] == added[0] for known in points):
        return list(points)
    return sorted([*points, added], key=lambda known: int(known[0]))
