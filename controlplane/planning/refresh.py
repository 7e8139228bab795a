"""Keeps every forecast up to date: a job of the worker, by schedule or when somebody starts it.

What is due is decided by what is stored, and each series is stored as soon as it is done. So a job whose worker ended goes on
where it was.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.core.formatting import shortened
from controlplane.planning import demand, jobs
from controlplane.planning.calendars import Calendars
from controlplane.planning.core import forecast_record
from controlplane.planning.core.fit import FitRequest, FitResult, fit, without_comparison
from controlplane.planning.models import CandidateChange, ForecastRecord, PlanJob, StoredForecast
from controlplane.planning.models.forecast import Measure, read_choice
from controlplane.planning.processes import CallFailedError, Processes
from forecasting.demand import Demand, DemandKey
from forecasting.forecast import Forecast
from forecasting.refresh import HORIZONS_S, Choice, Limits

log = structlog.get_logger(__name__)

KIND = "refresh"
ONLY_DUE = {"only_due": True}
"""The request of a scheduled job. A job without it compares the candidates of every series anew."""
RENEW_EVERY_S, MAX_RENEW_EVERY_S = 300, 3600
"""Of the shortest horizon and of the longest."""
COMPARE_EVERY = timedelta(hours=6)
COMPARE_LIMIT_S = 120.0
"""How long the comparison of one series may take before it is ended."""
COMPARE_MEMORY_MIB = 1024
"""Of each process that compares."""
LIMITS = Limits(fit_timeout_s=COMPARE_LIMIT_S / 4)
MAX_SERIES = 1000
"""Of so many combinations of model, tier and region demand is forecast: the largest."""
LOST_AFTER = timedelta(days=2)
"""A forecast that was not renewed for so long is removed: its traffic has ended."""
CHANGES_KEPT = timedelta(days=365)
RECORD_KEPT = timedelta(days=90)

Key = tuple[str, str, str, str]
"""Model, tier, region, measure."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a series at one horizon. The choice is None where it cannot be read."""

    made_at: datetime
    chosen_at: datetime | None
    choice: Choice | None


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """A series and what to do with it."""

    key: Key
    request: FitRequest


def queue_if_due() -> PlanJob | None:
    """Queue a scheduled refresh, unless there was a refresh within its period or there is one now."""
    now = timezone.now()  # what is later is of a clock that was ahead
    since = now - timedelta(seconds=RENEW_EVERY_S)
    recent = PlanJob.objects.filter(kind=KIND, created_at__range=(since, now)).exists()
    running = PlanJob.objects.filter(kind=KIND, state__in=jobs.OPEN).exists()
    return None if recent or running else jobs.start(KIND, ONLY_DUE)


@jobs.kind(KIND)
def refresh(request: Mapping[str, Any], progress: jobs.Progress) -> dict[str, Any]:
    """Renew what is due. Returns counts, and what failed (the first few)."""
    compare_before = timezone.now() - COMPARE_EVERY
    if request != ONLY_DUE:
        compare_before = max(compare_before, progress.job.created_at)
    work = _Work(compare_before)
    counts = {"renewed": 0, "compared": 0, "failed": 0}
    failures: list[str] = []

    def poll() -> None:
        progress.report(
            counts["renewed"], work.total, "compares candidates and forecasts" if work.total else "reads demand"
        )

    processes = Processes(fit, settings.CONFIG.forecast_processes, COMPARE_LIMIT_S, COMPARE_MEMORY_MIB)
    for item, outcome in processes.map(work, work.argument, poll):
        if isinstance(outcome, CallFailedError):
            counts["failed"] += 1
            failures.append(f"{item.request.name}: {outcome}")
            log.warning("forecast.failed", series=item.request.name, reason=str(outcome))
            _without(item, str(outcome))
        else:
            _save(item, outcome)
            counts["compared"] += item.request.compare
        counts["renewed"] += 1
        if item.request.compare:
            work.comparing.discard(item.key)
        poll()
    tidy()
    note = "" if work.keys else "No demand was measured yet."
    return {"series": 3 * work.keys, **counts, "left_out": work.left_out, "failures": failures[:20], "note": note}


class _Work:
    """What a refresh does, in order: what is to be renewed, which takes milliseconds, and then comparisons.

    Whenever the period of renewals is over, demand is read anew and they come first again: none waits for all comparisons.
    """

    def __init__(self, compare_before: datetime) -> None:
        self._compare_before = compare_before
        self.total = self.keys = self.left_out = 0
        self.comparing: set[Key] = set()
        """Those whose comparison is under way: it brings a forecast, too."""
        self._months: demand.Months | None = None

    def __iter__(self) -> Iterator[Due]:
        begun: set[Key] = set()
        while True:
            read_s = time.monotonic()
            due = list(_due(self._read(), self._compare_before))
            renewals = [item for item in due if not item.request.compare and item.key not in self.comparing]
            comparisons = [item for item in due if item.request.compare and item.key not in begun]
            self.total += len(renewals) + (0 if begun else len(comparisons))
            yield from renewals
            for item in comparisons:
                begun.add(item.key)
                self.comparing.add(item.key)
                yield item
                if time.monotonic() - read_s >= RENEW_EVERY_S:
                    break
            else:
                return

    def argument(self, item: Due) -> FitRequest:
        """What goes to a process: a comparison with its months of demand, which are read when its turn has come."""
        if not item.request.compare:
            return item.request
        self._months = self._months or demand.Months()
        *names, measure = item.key
        return replace(item.request, months=self._months.of(DemandKey(*names), measure))

    def _read(self) -> list[Demand]:
        every, self._months = demand.history(), None
        self.keys = min(len(every), MAX_SERIES)
        self.left_out = len(every) - self.keys
        if self.left_out:
            log.warning("forecasts.left_out", left_out=self.left_out)
        return every[:MAX_SERIES]


def tidy() -> None:
    """Remove forecasts of traffic that has ended, and records and changes that are too old."""
    now = timezone.now()
    StoredForecast.objects.filter(made_at__lt=now - LOST_AFTER).delete()
    ForecastRecord.objects.filter(day__lt=now.date() - RECORD_KEPT).delete()
    CandidateChange.objects.filter(at__lt=now - CHANGES_KEPT).delete()


def renewed_s(horizon_s: int) -> float:
    """How often a forecast of this horizon is renewed, s."""
    return min(max(RENEW_EVERY_S, horizon_s / 24), MAX_RENEW_EVERY_S)


def _due(known: list[Demand], compare_before: datetime) -> Iterator[Due]:
    """What has to be compared, and what has to be renewed by the choices it has."""
    stored, calendars, now = _stored(), Calendars(), timezone.now()
    for each in known:
        calendar = calendars.calendar_of(each.key)
        for measure in Measure:
            key = (each.key.model, each.key.tier, each.key.region, measure.value)
            rows = {horizon_s: stored.get((*key, horizon_s)) for horizon_s in HORIZONS_S}
            choices = {horizon_s: row.choice for horizon_s, row in rows.items() if row and row.choice}
            compare = any(
                row is None or row.choice is None or row.chosen_at is None or row.chosen_at < compare_before
                for row in rows.values()
            )
            late = tuple(
                horizon_s
                for horizon_s, row in rows.items()
                if row is not None
                and row.choice
                and abs(now - row.made_at) >= timedelta(seconds=renewed_s(horizon_s) - 1)
            )
            series, name = demand.series_of(each, measure), " / ".join(key)
            if compare:
                yield Due(key, FitRequest(name, series, calendar, HORIZONS_S, choices, True, LIMITS))
            if late:
                yield Due(key, FitRequest(name, series, calendar, late, choices, False, LIMITS))


def _stored() -> dict[tuple[str, str, str, str, int], Stored]:
    fields = ("model", "tier", "region", "measure", "horizon_s", "made_at", "chosen_at", "choice")
    return {row[:5]: Stored(row[5], row[6], read_choice(row[7])) for row in StoredForecast.objects.values_list(*fields)}


def _without(item: Due, error: str) -> None:
    """Forecast without a comparison, after one that failed."""
    try:
        result = fit(without_comparison(item.request, error))
    except Exception as failure:
        log.exception("forecast.not_made", series=item.request.name, reason=str(failure))
        return
    _save(item, result, error)


def _save(item: Due, result: FitResult, error: str = "") -> None:
    now = timezone.now()
    with transaction.atomic():
        for choice, forecast in zip(
            result.choices, result.forecasts, strict=True
        ):  # an empty one too: it is not due at once
            _save_forecast(item, choice, forecast, result.took_s, now, error)
            if len(forecast):
                _save_point(item.key, choice.horizon_s, forecast)


def _save_forecast(item: Due, choice: Choice, forecast: Forecast, took_s: float, now: datetime, error: str) -> None:
    of_series = dict(zip(("model", "tier", "region", "measure"), item.key, strict=True)) | {
        "horizon_s": choice.horizon_s
    }
    row = StoredForecast.objects.filter(**of_series).defer("choice", "quantiles").first()
    before = row.candidate if row is not None else ""
    row = row or StoredForecast(**of_series)
    row.take(forecast)
    row.made_at = now
    if item.request.compare:
        row.chosen_at, row.took_s, row.error = now, took_s, shortened(error, 500)
        row.choice = _rounded(msgspec.to_builtins(choice))
        row.scores = {score.candidate: score.loss for score in choice.scores if score.loss is not None}
    values = item.request.series.values
    measured = ~np.isnan(values)
    first = int(measured.argmax()) if measured.any() else len(values)
    row.history_from_s = item.request.series.start_s + first * item.request.series.step_s
    row.measured_steps = int(measured.sum())
    row.gap_steps = len(values) - first - row.measured_steps
    row.save()
    if before and before != row.candidate:
        CandidateChange.objects.create(
            **of_series, at=now, before=before, after=row.candidate, skill=row.skill, reason=row.reason
        )
        log.info("forecast.candidate_changed", series=item.request.name, before=before, after=row.candidate)


def _save_point(key: Key, horizon_s: int, forecast: Forecast) -> None:
    added = forecast_record.point(forecast)
    row, _ = ForecastRecord.objects.get_or_create(
        **dict(zip(("model", "tier", "region", "measure"), key, strict=True)),
        horizon_s=horizon_s,
        day=forecast_record.day_of(added),
        defaults={"step_s": forecast.step_s, "points": []},
    )
    points = forecast_record.with_point(row.points, added)
    if points != row.points:
        row.points, row.step_s = points, forecast.step_s
        row.save(update_fields=["points", "step_s"])


def _rounded(value: Any) -> Any:
    """JSON with six significant digits: curves have thousands of values."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
