"""Synthetic weeks: written before what is real, read like it, marked, and removed without a trace."""

import threading
import time
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.fleet.models import Tier
from controlplane.planning import demand, demo, jobs, refresh
from controlplane.planning.core.demo_traffic import Stream, expected, requests
from controlplane.planning.management.commands import demo_history
from controlplane.planning.models import DemoHistory, PlanJob
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.demand import SETTLED_S, STEP_S
from inference.contract.stages import STAGES
from tests.support.planning.stored_demand import store_demand, store_recorded
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.rollups import awake, fill
from tests.support.telemetry.samples import S, row

MONDAY_S = 1_795_392_000
STREAM = Stream("chat-large", "chat-large-8b", "chat-large-eu", "premium", "eu", 0.05, 14.0, 400.0, 60.0)


@pytest.fixture
def fleet(transactional_db: None, store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A pool, a tier, and the store that the product then uses. Forecasts are made nowhere: that is a job of its own."""
    stored_pool("chat-large-eu", "chat-large", "eu")
    Tier.objects.create(name="premium", priority=1)
    monkeypatch.setattr(answers, "store", lambda: store)
    monkeypatch.setitem(jobs._kinds, refresh.KIND, lambda request, progress: {"renewed": 3, "failed": 0})
    return store


@pytest.fixture
def short_weeks(monkeypatch: pytest.MonkeyPatch) -> int:
    """A day and a half, where their length is of no matter. Returns it, s."""
    monkeypatch.setattr(demo, "WEEK_S", 3 * 43_200)
    return 3 * 43_200


def rows(store: Store, table: str) -> int:
    [(count,)] = store.rows(f"SELECT count() FROM {table}")
    return int(count)


def run(request: dict[str, object]) -> PlanJob:
    job = jobs.start(demo.KIND, request)
    jobs.run_queued()
    job.refresh_from_db()
    return job


def test_synthetic_weeks_are_read_as_demand_and_rollups_and_removed_again(fleet: Store, short_weeks: int) -> None:
    job = run({"weeks": 1, "requests_per_s": 0.05, "seed": 1})
    row = DemoHistory.objects.get()
    assert row.complete
    forecasts = PlanJob.objects.get(kind=refresh.KIND)
    assert job.result == {"requests": row.requests, "note": "written", "forecasts_job": forecasts.pk}
    assert forecasts.request == {}, "all of them, and not only those whose period is over"
    assert time.time() - 600 < row.to_s <= time.time(), "they end where real requests begin, or now"
    assert job.done == job.total == -(-row.to_s // 43_200) - row.from_s // 43_200
    assert short_weeks <= row.to_s - row.from_s < short_weeks + 43_200
    [known] = demand.history(now_s=row.to_s + SETTLED_S)
    of_weeks = known.requests.values[(row.from_s - known.requests.start_s) // STEP_S : -1]
    [(settled,)] = fleet.rows(f"SELECT sum(requests) FROM demand WHERE start_s < {row.to_s - STEP_S}")
    assert of_weeks.sum() * STEP_S == pytest.approx(settled), "all but the last step, which may not be settled"
    assert fleet.rows("SELECT sum(requests) FROM demand") == [(row.requests,)]
    for step_s in (3600, 43_200):
        whole_s = row.to_s // step_s * step_s
        [(rolled,)] = fleet.rows(f"SELECT sum(requests) FROM rollups WHERE step_s = {step_s}")
        assert [(rolled,)] == fleet.rows(f"SELECT sum(requests) FROM demand WHERE start_s < {whole_s}")
    assert rows(fleet, "requests") == 0, "the ledger holds what was measured alone"
    assert "remove it first, with --delete" in run({"weeks": 1, "requests_per_s": 1.0, "seed": 1}).error
    store_demand(fleet, row.to_s + 300, [7], build=time.time_ns())
    store_recorded(fleet, row.to_s + 300, [300.0])
    with awake(fleet, "rollups", "rollup_slices", "demand", "rollup_builds"):
        removed = run(demo.DELETE).result
    assert (removed["requests"], removed["note"]) == (row.requests, "removed")
    assert (rows(fleet, "rollups"), rows(fleet, "demand"), rows(fleet, "rollup_builds")) == (0, 1, 1)
    assert not DemoHistory.objects.exists()
    assert fleet.rows("EXISTS TABLE demo_requests") == [(0,)]


def test_synthetic_weeks_and_the_first_minutes_of_traffic_are_one_history(
    fleet: Store, caller: Client, reader: Client, short_weeks: int
) -> None:
    """The requests of a new ledger are not settled at first, and far fewer than the synthetic ones."""
    first_ns = time.time_ns() - 20 * 60 * S
    store_rows = [row(n + 1, entry_start_ns=first_ns + n * S, model="chat-large") for n in range(60)]
    fleet.writer.insert_requests(store_rows, version=1)
    demo.fill(1, 0.05, 1, lambda done, total: None)
    history = DemoHistory.objects.get()
    assert 0 <= first_ns // S - history.to_s < 300
    store_recorded(fleet, history.to_s - 300, [30.0, 300.0])  # telemetry began shortly before the first request
    assert fleet.demand.known(history.from_s, history.to_s).of("").all(), (
        "a gap between what is synthetic and what is real"
    )
    hour_s = history.to_s // 3600 * 3600
    for built in (False, True):
        if built:
            assert fill(fleet, first_ns + 14 * 3600 * S)
        for asked in ({"from": "now-24h"}, {"from": "now-8d"}, {"from": "now-8d", "step_s": "86400"}):
            answer = caller.get("/api/v1/latency/series", asked).json()
            [(made_up,)] = fleet.rows(
                f"SELECT sum(requests) FROM demand WHERE model = 'chat-large' AND start_s < {hour_s}"
                f" AND start_s >= {answer['from_ns'] // S} AND build IN (SELECT build FROM rollup_builds WHERE touches = 0)"
            )
            assert sum(point["requests"] for point in answer["points"]) == made_up + 60, asked
    of_real = (
        "build IN (SELECT build FROM rollup_builds FINAL WHERE touches > 0 AND step_s = 43200 AND kind = 'rollups')"
    )
    assert fleet.rows(f"SELECT sum(requests) FROM rollups WHERE {of_real}") == [(60,)], "real builds have real requests"
    for path in ("/latency", "/"):
        page = reader.get(path, {"from": "now-24h"}).content.decode()
        assert "Made up, not measured:" in page
        assert "Made up" not in reader.get(path, {"from": "now-1h"}).content.decode()


def test_a_run_that_was_interrupted_is_written_anew(fleet: Store, short_weeks: int) -> None:
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


def test_the_command_says_how_far_the_worker_is_and_what_it_did(fleet: Store, short_weeks: int) -> None:
    said = StringIO()
    worker = threading.Timer(0.2, jobs.run_queued)
    worker.start()
    call_command("demo_history", weeks=1, requests_per_s=0.01, stdout=said)
    worker.join()
    assert f"written: {DemoHistory.objects.get().requests:,} synthetic requests; remove them" in said.getvalue()
    assert "3 forecasts are made anew, 0 failed" in said.getvalue()


def test_without_a_worker_the_command_says_so(fleet: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_history, "BEGINS_WITHIN_S", 0.0)
    with pytest.raises(CommandError, match="no worker has begun job"):
        call_command("demo_history", stdout=StringIO())


def test_while_the_worker_is_gone_the_command_says_that_nothing_moves(
    fleet: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def write(self, text: str) -> int:
            if "queued" in text:
                PlanJob.objects.update(state=PlanJob.State.RUNNING)
            elif "no progress for 0.05 s: does a worker run?" in text:
                PlanJob.objects.update(state=PlanJob.State.FAILED, error="the test ended it")
            return super().write(text)

    monkeypatch.setattr(demo_history, "BEGINS_WITHIN_S", 0.05)
    with pytest.raises(CommandError, match="the test ended it"):
        call_command("demo_history", stdout=Terminal())


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
