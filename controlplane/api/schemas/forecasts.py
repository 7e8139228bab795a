"""Shapes of forecasts. Values are per second; `_s` is seconds, or an epoch where the name says when."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema

from controlplane.api.formats import TIME, Finite, Instant, Name

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
    peak_p50: float
    peak_p90: float
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
