"""`planning/forecasts`: forecasts of demand, and their record against what came."""

import time
from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from controlplane.api.formats import Number
from controlplane.api.schemas.forecasts import (
    ForecastFilters,
    ForecastOut,
    ForecastRecordOut,
    ForecastsOut,
    ForecastSummaryOut,
    RecordParameters,
)
from controlplane.planning.models import StoredForecast
from controlplane.planning.record import record_of
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse
from forecasting.forecast import LEVELS, Forecast

router = Router(tags=["planning"])


@router.get("/forecasts", response=ForecastsOut, summary="The newest forecast of each series and horizon")
def forecasts(request: HttpRequest, parameters: Query[ForecastFilters]) -> dict[str, Any]:
    chosen = parameters.dict(exclude_none=True)
    return {"forecasts": [summary_out(row, row.to_forecast()) for row in StoredForecast.objects.filter(**chosen)]}


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
        "peak_p50": float(forecast.median.max(initial=0.0)),
        "peak_p90": float(forecast.at(0.9).max(initial=0.0)),
    }
