"""The worker sorts what is over, and a store that is away is no reason to fail."""

import pytest
from structlog.testing import capture_logs

from controlplane.celery import app
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.tasks import presort
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import random_rows


def test_what_is_scheduled_exists() -> None:
    app.loader.import_default_modules()
    assert {one["task"] for one in app.conf.beat_schedule.values()} <= app.tasks.keys()


def test_what_is_over_is_sorted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)
    monkeypatch.setattr("time.time_ns", lambda: 1_790_100_000 * 10**9)
    store.insert_requests(random_rows(10, seed=1), version=1)
    with capture_logs() as logs:
        presort()
        presort()
    assert [(one["event"], one["half_hours"]) for one in logs] in ([("ledger.presorted", 2)], [("ledger.presorted", 3)])


def test_a_store_that_is_away_is_said_and_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: Store("clickhouse://weir:x@127.0.0.1:1/weir"))
    with capture_logs() as logs:
        presort()
    assert [(one["event"], one["log_level"]) for one in logs] == [("ledger.presort_failed", "warning")]
