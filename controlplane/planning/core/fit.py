"""What a process of its own does with one demand series: compare the candidates where that is due, and forecast."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forecasting.calendar import Calendar
from forecasting.forecast import Forecast
from forecasting.refresh import Choice, Limits, predict, refresh, unchosen
from forecasting.series import Series


@dataclass(frozen=True, slots=True, eq=False)
class FitRequest:
    """With `compare`, all `horizons_s` are compared anew, far ones over `months`; else the given choices forecast."""

    name: str
    series: Series
    calendar: Calendar
    horizons_s: tuple[int, ...]
    choices: Mapping[int, Choice]
    compare: bool
    limits: Limits
    months: Series | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """The choice and the forecast of each horizon. `took_s` is the time of the comparison, 0 without one."""

    choices: Sequence[Choice]
    forecasts: Sequence[Forecast]
    took_s: float


def fit(request: FitRequest) -> FitResult:
    began_s = time.monotonic()
    if request.compare:
        incumbents = {horizon_s: choice.candidate for horizon_s, choice in request.choices.items()}
        choices = refresh(
            request.series, request.horizons_s, request.calendar, incumbents, request.limits, request.months
        )
    else:
        choices = tuple(request.choices[horizon_s] for horizon_s in request.horizons_s)
    took_s = time.monotonic() - began_s if request.compare else 0.0
    return FitResult(choices, [predict(request.series, choice, request.calendar) for choice in choices], took_s)


def without_comparison(request: FitRequest, error: str) -> FitRequest:
    """The same request after its comparison failed: what was chosen before goes on, and what stands in where nothing was."""
    why = f"the candidates could not be compared ({error})"
    choices = {
        horizon_s: request.choices.get(horizon_s) or unchosen(request.series, horizon_s, request.calendar, why)
        for horizon_s in request.horizons_s
    }
    return replace(request, choices=choices, compare=False)
