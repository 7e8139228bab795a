"""Forecasts in the database, with their record and a job, as the worker leaves them."""

import time
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.planning.models import CandidateChange, ForecastRecord, PlanJob, StoredForecast
from forecasting.gate import Score
from forecasting.intervals import Band
from forecasting.refresh import Choice
from tests.support.planning.forecasts import forecast

SERIES = (("chat-large", "premium", "eu"), ("chat-large", "standard", "us"), ("chat-small", "standard", "eu"))
SCORES = (
    Score("last_value", 1.0, 0.0, 0.0, origins=500),
    Score("seasonal_day", 0.62, 0.38, 0.02, origins=500),
    Score("holt", 0.97, 0.03, 0.02, origins=500),
    Score("prophet", note="Demand does not change: there is nothing to fit."),
)


def store_forecasts(now_s: int = 0) -> list[StoredForecast]:
    """Of requests and input tokens, 30 minutes and a week ahead."""
    now_s = (now_s or int(time.time())) // 900 * 900
    rows = []
    for number, (model, tier, region) in enumerate(SERIES):
        for measure, scale in (("requests", 1.0), ("input_tokens", 400.0)):
            for horizon_s in (1800, 604_800):
                made = forecast(now_s, scale * (number + 1), steps=horizon_s // 900)
                choice = Choice(horizon_s, 900, made.candidate, made.skill, made.reason, Band.guess(), SCORES)
                row = StoredForecast(
                    model=model,
                    tier=tier,
                    region=region,
                    measure=measure,
                    horizon_s=horizon_s,
                    made_at=datetime.fromtimestamp(now_s, UTC),
                    scores={score.candidate: score.loss for score in SCORES if score.loss is not None},
                    choice=msgspec.to_builtins(choice),
                    history_from_s=now_s - 28 * 86_400,
                    measured_steps=2600,
                    gap_steps=88,
                    took_s=0.4,
                )
                row.take(made)
                row.save()
                rows.append(row)
    return rows


def store_record(row: StoredForecast, days: int = 3) -> None:
    """What the row's series would have had forecast at each quarter of an hour of the last days: P50 10, P90 18."""
    end_s = row.start_s
    for back in range(days + 1):
        day = datetime.fromtimestamp(end_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
            days=back
        )
        start_s = int(day.timestamp())
        points = [
            [at, at - row.horizon_s, row.candidate, 5.0, 10.0, 18.0]
            for at in range(start_s, min(start_s + 86_400, end_s), 900)
        ]
        series = {name: getattr(row, name) for name in ("model", "tier", "region", "measure", "horizon_s")}
        ForecastRecord.objects.create(day=day.date(), step_s=900, points=points, **series)


def store_change(row: StoredForecast) -> CandidateChange:
    series = {name: getattr(row, name) for name in ("model", "tier", "region", "measure", "horizon_s")}
    reason = "Its loss was 38 % below that of last value in the backtest."
    return CandidateChange.objects.create(
        at=row.made_at, before="last_value", after=row.candidate, skill=0.38, reason=reason, **series
    )


def running_job(done: int = 40, total: int = 200) -> PlanJob:
    now = datetime.now(UTC)
    return PlanJob.objects.create(
        kind="refresh", state=PlanJob.State.RUNNING, author="rita", started_at=now, seen_at=now, done=done, total=total,
        note="chat-large, standard, eu: prophet", holder="elsewhere:1", attempt=1,
    )  # fmt: skip
