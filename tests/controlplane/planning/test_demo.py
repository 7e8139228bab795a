"""Synthetic weeks: written before what is real, read like it, marked, and removed without a trace."""

import threading
import time
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from controlplane.fleet.models import LLMModel, Pool, Region, Tier, Variant
from controlplane.planning import demand, demo, jobs
from controlplane.planning.core.demo_traffic import Stream, expected, requests
from controlplane.planning.management.commands import demo_history as command
from controlplane.planning.models import DemoHistory, PlanJob
from controlplane.telemetry.ledger.row import STAGES
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.planning.stored_demand import store_demand, store_recorded

MONDAY_S = 1_795_392_000
STREAM = Stream("chat-large", "chat-large-v", "chat-large-eu", "premium", "eu", 0.05, 14.0, 400.0, 60.0)


@pytest.fixture
def fleet(transactional_db: None, store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A pool, a tier, and the store that the product then uses."""
    variant = Variant.objects.create(name="chat-large-v", model=LLMModel.objects.create(name="chat-large"))
    Pool.objects.create(name="chat-large-eu", variant=variant, region=Region.objects.create(name="eu"), model_name="x")
    Tier.objects.create(name="premium", priority=1)
    monkeypatch.setattr(answers, "store", lambda: store)
    return store


def rows(store: Store, table: str) -> int:
    [(count,)] = store.rows(f"SELECT count() FROM {table}")
    return int(count)


def run(request: dict[str, object]) -> PlanJob:
    job = jobs.start(demo.KIND, request)
    jobs.run_queued()
    job.refresh_from_db()
    return job


def test_synthetic_weeks_are_read_as_demand_and_rollups_and_removed_again(fleet: Store) -> None:
    job = run({"weeks": 1, "requests_per_s": 0.05, "seed": 1})
    row = DemoHistory.objects.get()
    assert row.complete
    assert job.result == {"requests": row.requests, "note": "written"}
    assert (job.done, job.total) == (14, 14)
    assert row.to_s - row.from_s == 7 * 86_400
    assert time.time() - 43_200 < row.to_s <= time.time()
    [known] = demand.history()
    assert np.nansum(known.requests.values) * 300 == pytest.approx(row.requests)
    assert dict(fleet.rows("SELECT step_s, sum(requests) FROM rollups GROUP BY step_s")) == {
        3600: row.requests,
        43_200: row.requests,
    }
    assert rows(fleet, "requests") == 0, "the ledger holds what was measured alone"
    assert "remove it first, with --delete" in run({"weeks": 1, "requests_per_s": 1.0, "seed": 1}).error
    store_demand(fleet, row.to_s + 300, [7], build=time.time_ns())
    store_recorded(fleet, row.to_s + 300, [300.0])
    assert run(demo.DELETE).result == {"requests": row.requests, "note": "removed"}
    assert (rows(fleet, "rollups"), rows(fleet, "demand"), rows(fleet, "rollup_builds")) == (0, 1, 1)
    assert not DemoHistory.objects.exists()
    assert fleet.rows("EXISTS TABLE demo_requests") == [(0,)]


def test_a_run_that_was_interrupted_is_written_anew(fleet: Store) -> None:
    class StoppedError(Exception):
        pass

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        demo.fill(1, 0.01, 1, interrupt)
    assert not DemoHistory.objects.get().complete
    row = demo.fill(1, 0.01, 1, lambda done, total: None)
    assert DemoHistory.objects.get() == row
    assert fleet.rows("SELECT sum(requests) FROM demand") == [(row.requests,)]


def test_the_command_says_how_far_the_worker_is_and_what_it_did(fleet: Store) -> None:
    said = StringIO()
    worker = threading.Timer(0.2, jobs.run_queued)
    worker.start()
    call_command("demo_history", weeks=1, requests_per_s=0.01, stdout=said)
    worker.join()
    assert f"written: {DemoHistory.objects.get().requests:,} synthetic requests; remove them" in said.getvalue()


def test_without_a_worker_the_command_says_so(fleet: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BEGINS_WITHIN_S", 0.0)
    with pytest.raises(CommandError, match="no worker has begun job"):
        call_command("demo_history", stdout=StringIO())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weeks": 0}, "weeks=0 is out of range: use 1 to 52"),
        ({"requests_per_s": 1000.0}, "requests_per_s=1000 is out"),
    ],
)
def test_bad_numbers_are_refused(db: None, options: dict[str, float], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("demo_history", **options)


@pytest.mark.django_db
def test_a_fleet_without_pools_is_refused() -> None:
    with pytest.raises(demo.DemoRefusedError, match="enter them in the admin first"):
        demo.fleet_streams(1.0)


def test_synthetic_requests_close_like_the_ledger_and_repeat_by_seed() -> None:
    made = requests([STREAM], MONDAY_S, 43_200, MONDAY_S, 1)
    parts = np.sum([made[f"stage_{stage}"] for stage in STAGES], axis=0) + made["unattributed_ns"]
    assert (parts == made["e2e_ns"]).all()
    assert (made["ttft_ns"] <= made["e2e_ns"]).all()
    assert (made["entry_start_ns"] // 10**9 < MONDAY_S + 43_200).all()
    again = requests([STREAM], MONDAY_S, 43_200, MONDAY_S, 1)
    assert all((again[name] == values).all() for name, values in made.items())
    other = requests([STREAM], MONDAY_S, 43_200, MONDAY_S, 2)
    assert len(other["e2e_ns"]) != len(made["e2e_ns"]) or (other["e2e_ns"] != made["e2e_ns"]).any()


def test_traffic_has_a_day_a_week_and_growth() -> None:
    two_weeks = expected(STREAM, MONDAY_S, 14 * 288, MONDAY_S).reshape(14, 288)
    assert abs(int(two_weeks[0].argmax()) - 14 * 12) <= 1
    assert two_weeks[5].sum() < 0.7 * two_weeks[0].sum()
    assert two_weeks[7].sum() == pytest.approx(1.03 * two_weeks[0].sum())
