"""A forecast: quantiles of what is to come, with who made it and why."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forecasting.series import F64

UNREADABLE = "unreadable"
"""The candidate of a forecast without steps, in the place of a stored one that cannot be read."""
LEVELS = (0.05, 0.1, 0.5, 0.9, 0.95, 0.99)
"""The quantiles that a forecast has."""


class ForecastError(ValueError):
    """The quantiles cannot be a forecast. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """`quantiles[level][i]` covers the time from `start_s + i * step_s` for `step_s` seconds.

    Quantiles grow with their level, are 0 or more, and never NaN; ForecastError is raised where they are not so.
    `candidate` names the forecaster that won ("last_value", "seasonal_day", "prophet", …). `skill` is 1 - its pinball
    loss / the pinball loss at that horizon of what it had to beat (last value, beyond two hours the last day or week), None
    before it is known. `reason` is a plain sentence: why this candidate.
    """

    start_s: int
    step_s: int
    quantiles: Mapping[float, F64]
    candidate: str
    skill: float | None
    reason: str

    def __post_init__(self) -> None:
        if self.step_s < 1:
            raise ForecastError(f"step_s is {self.step_s}: give 1 or more")
        missing = set(LEVELS) - set(self.quantiles)
        if missing:
            raise ForecastError(f"quantiles lack the levels {sorted(missing)}: give all of {LEVELS}")
        rows = [self.quantiles[level] for level in sorted(self.quantiles)]
        if rows[0].ndim != 1 or len({row.shape for row in rows}) != 1:
            raise ForecastError("quantiles differ in length: give one value per step for every level")
        table = np.stack(rows)
        if not np.isfinite(table).all() or (table < 0).any():
            raise ForecastError("quantiles have values below 0, infinite or NaN: give finite ones of 0 or more")
        if (np.diff(table, axis=0) < 0).any():
            raise ForecastError("quantiles cross: a higher level must never have a lower value")

    def __len__(self) -> int:
        return len(self.quantiles[0.5])

    @property
    def end_s(self) -> int:
        """The epoch at which the last step ends."""
        return self.start_s + len(self) * self.step_s

    @property
    def median(self) -> F64:
        return self.quantiles[0.5]

    def at(self, level: float) -> F64:
        """Any quantile: one of LEVELS, or between two of them by linear interpolation. Beyond the outermost: that one."""
        if level in self.quantiles:
            return self.quantiles[level]
        levels = sorted(self.quantiles)
        above = int(np.searchsorted(levels, level))
        if above in (0, len(levels)):
            return self.quantiles[levels[min(above, len(levels) - 1)]]
        low, high = levels[above - 1], levels[above]
        share = (level - low) / (high - low)
        between: F64 = (1 - share) * self.quantiles[low] + share * self.quantiles[high]
        return between
