"""The record of forecasts: what was forecast of steps that are over, against what came."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from controlplane.planning import demand
from controlplane.planning.models import ForecastRecord, StoredForecast
from forecasting.series import Series

MAX_STEPS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class ForecastThen:
    """What came in each step, and what had been forecast of it. NaN where nothing was.

    `came` is what clients wanted; `shed` and `from_cache` are requests/s of it that were refused, and that the cache answered.
    `limited` came beside it, and were over a limit of their tenant or key.
    """

    came: Series
    shed: Series
    limited: Series
    from_cache: Series
    median: Series
    p90: Series

    @property
    def steps(self) -> int:
        """How many steps have both a forecast and what came."""
        return int(self._both.sum())

    @property
    def wape(self) -> float | None:
        """Sum of absolute errors of P50 over the sum of what came (Hyndman and Koehler 2006, https://doi.org/10.1016/j.ijforecast.2006.03.001).

        None where nothing came.
        """
        came = self.came.values[self._both]
        total = float(came.sum())
        return float(np.abs(came - self.median.values[self._both]).sum()) / total if total > 0 else None

    @property
    def p90_coverage(self) -> float | None:
        """The share of steps in which no more came than P90; None without steps. Calibrated, it is 0.9."""
        both = self._both
        return float((self.came.values[both] <= self.p90.values[both]).mean()) if both.any() else None

    @property
    def _both(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        both: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = ~(
            np.isnan(self.came.values) | np.isnan(self.median.values)
        )
        return both


def record_of(row: StoredForecast, from_s: int, to_s: int) -> ForecastThen:
    """The record of a series at its horizon, from `from_s` to `to_s` in at most MAX_STEPS steps. Raises the store's errors."""
    step_s = row.step_s * max(1, -(-(to_s - from_s) // (MAX_STEPS * row.step_s)))
    start_s, end_s = from_s // step_s * step_s, max(from_s, to_s) // step_s * step_s
    came = demand.read(row.model, row.tier, row.region, row.measure, start_s, end_s, step_s)
    return forecast_then(row, came)


def forecast_then(row: StoredForecast, counted: demand.Came) -> ForecastThen:
    """The points of the record that fall into the steps of what came: of several in a step, their means."""
    came = counted.wanted
    median, p90, counts = (np.zeros(len(came)) for _ in range(3))
    rows = ForecastRecord.objects.filter(
        model=row.model,
        tier=row.tier,
        region=row.region,
        measure=row.measure,
        horizon_s=row.horizon_s,
        day__gte=datetime.fromtimestamp(came.start_s, UTC).date(),
        day__lte=datetime.fromtimestamp(max(came.start_s, came.end_s - 1), UTC).date(),
    )
    for day in rows:
        for start_s, _, _, _, p50, high in day.points:
            at = (int(start_s) - came.start_s) // came.step_s
            if 0 <= at < len(came):
                counts[at] += 1
                median[at] += p50
                p90[at] += high
    unknown = np.full(len(came), np.nan)
    median, p90 = (np.divide(sums, counts, out=unknown.copy(), where=counts > 0) for sums in (median, p90))
    return ForecastThen(
        came,
        counted.shed,
        counted.limited,
        counted.from_cache,
        Series(came.start_s, came.step_s, median),
        Series(came.start_s, came.step_s, p90),
    )
