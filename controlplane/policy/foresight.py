"""The warm plans that would have been made at each time of the past, each from what was known by then. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from controlplane.policy.core.observation import PoolPlan
from controlplane.policy.observe.core.plans import pool_plan
from forecasting.calendar import Calendar
from forecasting.capacity.assumptions import HOUR_S, Demand, PlanInputs, PoolAssumptions
from forecasting.capacity.warm_plan import warm_plans
from forecasting.forecast import LEVELS, Forecast
from forecasting.refresh import HORIZONS_S, Choice, Limits, predict, refresh
from forecasting.series import F64, Series

KNOWN_AFTER_S = 120
"""A step of demand counts two minutes after its end (docs/demand.md)."""
COMPARED_EVERY_S = 6 * HOUR_S
"""As `COMPARE_EVERY` of the job that makes forecasts."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """What was forecast after each whole step of a demand, from step `first` on: origins × levels × leads."""

    start_s: int
    step_s: int
    first: int
    quantiles: F64
    candidates: tuple[str, ...]
    skills: tuple[float | None, ...]

    def at(self, now_s: float) -> Forecast | None:
        """The newest that was known at an epoch."""
        known = int(now_s - KNOWN_AFTER_S - self.start_s) // self.step_s
        row = min(known - self.first, len(self.quantiles) - 1)
        if row < 0:
            return None
        quantiles = dict(zip(LEVELS, self.quantiles[row], strict=True))
        start_s = self.start_s + (self.first + row) * self.step_s
        return Forecast(start_s, self.step_s, quantiles, self.candidates[row], self.skills[row], "")


def horizon_for(lead_s: float, step_s: int) -> int:
    """The shortest of the product's horizons that reaches `lead_s` beyond the newest forecast when it is oldest, else the longest."""
    return next((each for each in HORIZONS_S if each >= lead_s + KNOWN_AFTER_S + step_s), HORIZONS_S[-1])


def forecasts(
    demand: Series,
    first: int,
    last: int,
    horizon_s: int,
    calendar: Calendar | None = None,
    limits: Limits | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Forecasts:
    """Forecasts from the origins `first` to `last` (excluded), as the product makes them: candidates are compared every six hours."""
    choice: Choice | None = None
    rows: list[F64] = []
    candidates: list[str] = []
    skills: list[float | None] = []
    for origin in range(first, last):
        past = demand.until(origin)
        if choice is None or (origin - first) * demand.step_s % COMPARED_EVERY_S == 0:
            incumbents = {horizon_s: choice.candidate} if choice else None
            choice = refresh(past, (horizon_s,), calendar, incumbents, limits)[0]
        progress((origin - first) / (last - first))
        forecast = predict(past, choice, calendar)
        ahead = max(1, -(-horizon_s // choice.step_s))
        made = np.stack([forecast.quantiles[level] for level in LEVELS])
        rows.append(made if len(forecast) else np.zeros((len(LEVELS), ahead)))  # it has no skill: nobody follows it
        candidates.append(forecast.candidate)
        skills.append(forecast.skill)
    step_s = choice.step_s if choice else demand.step_s
    if step_s != demand.step_s:
        raise ValueError(
            f"horizon_s is {horizon_s}: give one whose forecasts have the step of demand, {demand.step_s} s"
        )
    return Forecasts(demand.start_s, demand.step_s, first, np.stack(rows), tuple(candidates), tuple(skills))


@dataclass(slots=True)
class Plans:
    """The warm plan of a pool for a quantile of its demand, made anew with each forecast. Called with a time in ms."""

    forecasts: Forecasts
    pool: PoolAssumptions
    level: float
    margin_s: int
    _made_at_s: int = field(default=-1, repr=False)
    _plan: PoolPlan | None = field(default=None, repr=False)

    def __call__(self, now_ms: int) -> PoolPlan | None:
        forecast = self.forecasts.at(now_ms / 1_000)
        if forecast is None:
            return None
        if forecast.start_s != self._made_at_s:
            demand = Demand(self.pool.model, "", self.pool.region, forecast)
            inputs = PlanInputs((demand,), (self.pool,), level=self.level, margin_s=self.margin_s)
            self._plan = pool_plan(warm_plans(inputs)[0], inputs, forecast.start_s)
            self._made_at_s = forecast.start_s
        return self._plan
