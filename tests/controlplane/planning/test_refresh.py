"""Forecasts of demand in a real store: made, renewed when due, recorded, and failing alone."""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.fleet.models import Region
from controlplane.planning import demand, jobs, refresh
from controlplane.planning.calendars import Calendars
from controlplane.planning.core.fit import FitRequest, FitResult
from controlplane.planning.inputs import demands
from controlplane.planning.models import (
    CandidateChange,
    ForecastRecord,
    PlanJob,
    PlannedEvent,
    RegionCalendar,
    StoredForecast,
)
from controlplane.planning.processes import Processes
from controlplane.planning.questions import this_hour_s
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from forecasting.demand import DemandKey
from forecasting.forecast import LEVELS
from forecasting.refresh import HORIZONS_S, Limits
from tests.support.planning.fits import breaking
from tests.support.planning.stored_demand import store_demand, store_recorded

pytestmark = pytest.mark.django_db(transaction=True)
KEY = ("chat-large", "premium", "eu")
DAYS = 3


@pytest.fixture
def quick(settings: Settings, monkeypatch: pytest.MonkeyPatch, store: Store) -> Iterator[Store]:
    """A store with demand, read by the product; Prophet is left out: its fits are tested with the forecasts."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"forecast_processes": 1})
    monkeypatch.setattr("controlplane.planning.refresh.LIMITS", Limits(prophet=False))
    monkeypatch.setattr(answers, "store", lambda: store)
    yield store


def fill(store: Store, key: tuple[str, str, str] = KEY, finished: bool = True) -> int:
    """Some days with a daily rhythm until now. Returns when they begin, s since the epoch. A second key is of the same builds."""
    steps = DAYS * 288
    from_s = int(time.time()) // 300 * 300 - steps * 300
    daily = 300 + 200 * np.sin(np.arange(steps) / 288 * 2 * np.pi)
    store_demand(store, from_s, np.random.default_rng(7).poisson(daily), key, finished=finished)
    store_recorded(store, from_s, [300.0] * steps)
    return from_s


def run(request: dict[str, object] | None = None) -> PlanJob:
    job = jobs.start(refresh.KIND, request or {})
    jobs.run_queued()
    job.refresh_from_db()
    assert job.state == PlanJob.State.DONE, job.error
    return job


def test_every_series_has_a_forecast_of_every_horizon_and_a_record_of_it_until_they_are_too_old(quick: Store) -> None:
    fill(quick)
    job = run()
    assert {name: job.result[name] for name in ("series", "renewed", "compared", "failed")} == {
        "series": 3,
        "renewed": 3,
        "compared": 3,
        "failed": 0,
    }
    rows = StoredForecast.objects.filter(measure="requests")
    assert [row.horizon_s for row in rows] == sorted(HORIZONS_S)
    day = rows.get(horizon_s=86_400)
    made = day.to_forecast()
    assert set(made.quantiles) == set(LEVELS)
    assert made.end_s - made.start_s == 86_400
    assert day.measured_steps > DAYS * 288 - 5
    assert day.candidate in day.scores
    assert {len(record.points) for record in ForecastRecord.objects.all()} == {1}
    assert ForecastRecord.objects.count() == 12
    tokens = StoredForecast.objects.get(measure="input_tokens", horizon_s=86_400).to_forecast()
    assert float(tokens.median.mean()) == pytest.approx(500 * float(made.median.mean()), rel=0.1)
    StoredForecast.objects.filter(measure="requests").update(made_at=timezone.now() - timedelta(days=3))
    ForecastRecord.objects.filter(measure="requests").update(day=timezone.now().date() - timedelta(days=91))
    refresh.tidy()
    assert set(StoredForecast.objects.values_list("measure", flat=True)) == {"input_tokens", "output_tokens"}
    assert set(ForecastRecord.objects.values_list("measure", flat=True)) == {"input_tokens", "output_tokens"}


def test_what_was_not_measured_long_enough_forecasts_nothing_and_is_no_demand(quick: Store) -> None:
    from_s = int(time.time()) // 300 * 300 - 4 * 300
    store_demand(quick, from_s, np.full(4, 300.0), KEY)
    store_recorded(quick, from_s, [300.0] * 4)
    run()
    rows = {row.horizon_s: row for row in StoredForecast.objects.filter(measure="requests")}
    assert [row.is_empty for _, row in sorted(rows.items())] == [False, False, False, True], "a week wants whole hours"
    week_s = this_hour_s() + 7 * 86_400
    [planned] = demands(week_s)
    assert planned.requests.median.max() > 0, "the longest forecast that there is"


def test_only_what_is_due_is_renewed_and_another_winner_is_a_change_that_is_kept(quick: Store) -> None:
    fill(quick)
    run()
    before = {row.pk: row.made_at for row in StoredForecast.objects.all()}
    assert run(refresh.ONLY_DUE).result["renewed"] == 0
    StoredForecast.objects.filter(horizon_s=1800).update(made_at=timezone.now() - timedelta(hours=1))
    job = run(refresh.ONLY_DUE)
    assert (job.result["renewed"], job.result["compared"]) == (3, 0)
    renewed = {row.horizon_s for row in StoredForecast.objects.all() if row.made_at != before[row.pk]}
    assert renewed == {1800}
    day = StoredForecast.objects.filter(horizon_s=86_400, measure="requests")
    day.update(candidate="level_trend")
    StoredForecast.objects.filter(measure="requests").update(chosen_at=timezone.now() - timedelta(days=1))
    assert run(refresh.ONLY_DUE).result["compared"] == 1
    [change] = CandidateChange.objects.filter(horizon_s=86_400, measure="requests")
    assert (change.before, change.after, change.reason) == ("level_trend", day.get().candidate, day.get().reason)


def test_renewals_come_before_each_comparison_that_they_would_wait_for(
    quick: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(quick)
    run()
    handed = []

    class Watched(Processes[FitRequest, FitResult]):
        def map(self, items: Iterable[Any], *how: Any) -> Iterator[Any]:
            def watched() -> Iterator[Any]:
                for item in items:
                    handed.append("compare" if item.request.compare else "renew")
                    yield item

            for item, outcome in super().map(watched(), *how):
                yield item, outcome
                if item.request.compare:  # which took longer than the period of renewals
                    StoredForecast.objects.update(made_at=timezone.now() - timedelta(hours=2))

    monkeypatch.setattr(refresh, "Processes", Watched)
    monkeypatch.setattr(refresh, "RENEW_EVERY_S", 0)
    StoredForecast.objects.update(
        chosen_at=timezone.now() - timedelta(days=1), made_at=timezone.now() - timedelta(hours=2)
    )
    assert run(refresh.ONLY_DUE).result["compared"] == 3
    assert handed == 3 * (3 * ["renew"] + ["compare"]) + 3 * ["renew"]


def test_a_series_that_cannot_be_compared_keeps_its_forecast_and_spoils_no_other(
    quick: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(quick)
    fill(quick, ("bad", "premium", "eu"), finished=False)
    monkeypatch.setattr(refresh, "Processes", lambda _, *rest: Processes(breaking, *rest))
    job = run()
    assert job.result["failed"] == 3
    bad = StoredForecast.objects.filter(model="bad")
    assert {row.candidate for row in bad if row.horizon_s <= 7200} == {"last_value"}
    assert {row.candidate for row in bad if row.horizon_s > 7200} == {"seasonal_day"}
    assert all("ended (SIGKILL)" in row.error and "could not be compared" in row.reason for row in bad)
    assert StoredForecast.objects.filter(model="chat-large", error="").count() == 12


def test_without_demand_the_job_says_so(quick: Store) -> None:
    assert run().result["note"] == "No demand was measured yet."


def test_a_refresh_is_queued_once_a_period(quick: Store) -> None:
    job = refresh.queue_if_due()
    assert job is not None
    assert job.request == refresh.ONLY_DUE
    assert refresh.queue_if_due() is None, "it is open"
    jobs.run_queued()
    assert refresh.queue_if_due() is None, "its period is not over"
    PlanJob.objects.update(created_at=timezone.now() - timedelta(hours=1))
    assert refresh.queue_if_due() is not None
    jobs.run_queued()
    PlanJob.objects.update(created_at=timezone.now() + timedelta(hours=1))
    assert refresh.queue_if_due() is not None, "a clock was ahead"


def test_the_history_of_a_series_is_read_with_its_gaps(quick: Store) -> None:
    from_s = fill(quick)
    came = demand.read(*KEY, "requests", from_s, from_s + 86_400, 60)
    assert (came.wanted.step_s, len(came.wanted)) == (300, 288)
    assert not np.isnan(came.wanted.values).any()
    nobody = demand.read("nobody", "", "", "output_tokens", from_s - 86_400, from_s + 86_400, 3600)
    assert np.isnan(nobody.wanted.values[:24]).all()
    assert (nobody.wanted.values[25:] == 0).all()


def test_a_region_has_its_holidays_and_an_event_concerns_whom_it_names(db: None) -> None:
    RegionCalendar.objects.create(
        region=Region.objects.create(name="eu"), country="DE", subdivision="BY", zone="Europe/Berlin"
    )
    start = datetime(2026, 12, 1, tzinfo=UTC)
    PlannedEvent.objects.create(name="launch", start=start, duration_s=3600, expected_factor=2.0, model="chat-large")
    PlannedEvent.objects.create(name="off", start=start, duration_s=3600, enabled=False)
    calendars = Calendars()
    calendar = calendars.calendar_of(DemandKey(*KEY))
    assert (calendar.country, calendar.subdivision, calendar.timezone) == ("DE", "BY", "Europe/Berlin")
    assert [(event.name, event.factor) for event in calendar.events] == [("launch", 2.0)]
    assert calendars.calendar_of(DemandKey("chat-small", "premium", "us")).events == ()
