"""`planning/forecasts`: forecasts of demand, and their record against what came.

Values are per second; `_s` is seconds, or an epoch where the name says when.
"""

import time
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema

from controlplane.api.formats import TIME, Finite, Instant, Name, Number
from controlplane.planning.forecast_record import record_of
from controlplane.planning.models import StoredForecast
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse
from forecasting.forecast import LEVELS, Forecast

router = Router(tags=["planning"])
MeasureName = Literal["requests", "input_tokens", "output_tokens"]


class ForecastFilters(Schema):
    model: Name | None = None
    tier: Name | None = None
    region: Name | None = None
    measure: MeasureName | None = None
    horizon_s: int | None = Field(None, ge=1, le=2**31 - 1, description="How far ahead the forecast reaches")


class RecordParameters(Schema):
    from_: Instant = Field("now-7d", alias="from", description=TIME)
    to: Instant = Field("now", description=TIME)


class ForecastSummaryOut(Schema):
    number: int
    model: str = Field(description="Empty where it is not known; so are tier and region")
    tier: str
    region: str
    measure: str
    horizon_s: int
    made_at: datetime
    start_s: int
    step_s: int
    steps: int
    candidate: str = Field(description="Which forecaster won the backtest: last_value, seasonal_day, prophet, …")
    skill: float | None = Field(
        description="1 - its pinball loss / that of last value (beyond two hours of the last day or week); null before it is known"
    )
    reason: str
    peak_p50: float | None = Field(
        description="Null where `steps` is 0: the stored forecast cannot be read, as `reason` says"
    )
    peak_p90: float | None
    history_from_s: int
    measured_steps: int
    gap_steps: int = Field(description="Steps of the history that were not measured")


class ForecastsOut(Schema):
    forecasts: list[ForecastSummaryOut]


class ForecastStepOut(Schema):
    """Quantiles of one step. P90 means that 9 times in 10 no more comes."""

    start_s: int
    p5: float
    p10: float
    p50: float
    p90: float
    p95: float
    p99: float


class ForecastOut(ForecastSummaryOut):
    scores: dict[str, float] = Field(description="Mean pinball loss of each candidate in the backtest")
    forecast: list[ForecastStepOut]


class RecordStepOut(Schema):
    """One step that is over. Null where it was not measured, or where nothing was forecast of it."""

    start_s: int
    came: Finite
    shed: Finite = Field(description="Of it, requests/s that were refused")
    limited: Finite = Field(description="Beside it, requests/s that were over a limit of their tenant or key")
    from_cache: Finite = Field(description="Of it, requests/s that the cache answered")
    p50: Finite
    p90: Finite


class ForecastRecordOut(Schema):
    """What was forecast `horizon_s` ahead, against what came."""

    number: int
    step_s: int
    steps_compared: int
    wape: float | None = Field(description="Sum of absolute errors of P50 over the sum of what came")
    p90_coverage: float | None = Field(description="Share of the steps in which no more came than P90; 0.9 is right")
    steps: list[RecordStepOut]


@router.get("/forecasts", response=ForecastsOut, summary="The newest forecast of each series and horizon")
def forecasts(request: HttpRequest, parameters: Query[ForecastFilters]) -> dict[str, Any]:
    chosen = parameters.dict(exclude_none=True)
    rows = StoredForecast.objects.filter(**chosen)
    return {"forecasts": [summary_out(row, row.to_forecast()) for row in rows if not row.is_empty]}


@router.get("/forecasts/{int:number}", response=ForecastOut, summary="One forecast, with its quantiles by step")
def one_forecast(request: HttpRequest, number: Number) -> dict[str, Any]:
    row = get_object_or_404(StoredForecast, pk=number)
    forecast = row.to_forecast()
    return {
        **summary_out(row, forecast),
        "scores": row.scores,
        "forecast": [
            {
                "start_s": forecast.start_s + at * forecast.step_s,
                **{f"p{level * 100:g}": float(forecast.quantiles[level][at]) for level in LEVELS},
            }
            for at in range(len(forecast))
        ],
    }


@router.get("/forecasts/{int:number}/record", response=ForecastRecordOut, summary="What was forecast against what came")
def forecast_record(request: HttpRequest, number: Number, parameters: Query[RecordParameters]) -> dict[str, Any]:
    row = get_object_or_404(StoredForecast, pk=number)
    window = parse(parameters.from_, parameters.to, time.time_ns()).window
    then = record_of(row, window.from_ns // SECOND_NS, window.to_ns // SECOND_NS)
    columns = {
        "came": then.came, "shed": then.shed, "limited": then.limited, "from_cache": then.from_cache, "p50": then.median, "p90": then.p90,
    }  # fmt: skip
    return {
        "number": row.pk,
        "step_s": then.came.step_s,
        "steps_compared": then.steps,
        "wape": then.wape,
        "p90_coverage": then.p90_coverage,
        "steps": [
            {
                "start_s": then.came.start_s + at * then.came.step_s,
                **{name: series.values[at] for name, series in columns.items()},
            }
            for at in range(len(then.came))
        ],
    }


def summary_out(row: StoredForecast, forecast: Forecast) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(row).items() if name in ForecastSummaryOut.model_fields},
        "number": row.pk,
        "steps": len(forecast),
        "candidate": forecast.candidate,
        "skill": forecast.skill,
        "reason": forecast.reason,
        "peak_p50": float(forecast.median.max()) if forecast else None,
        "peak_p90": float(forecast.at(0.9).max()) if forecast else None,
    }
