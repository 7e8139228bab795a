"""From the ledger and metrics of a store to what plans rest on, through the job of the worker."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.fleet.models import Pool
from controlplane.planning import jobs, measured
from controlplane.planning.models import GpuType, MeasuredHitRate, MeasuredPool, PlanJob, PoolCapacity
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.ledger.loads import Load
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S, row
from tests.support.telemetry.stored_metrics import write

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
MS = 1_000_000
STEP_S = measured.STEP_S
GOOD_MS, BAD_MS = 100, 900


@pytest.fixture(autouse=True)
def answering(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)


@pytest.fixture
def chat() -> Pool:
    """A pool of two GPUs a replica, with an objective of 300 ms to the first token."""
    pool = stored_pool("chat-eu", region="eu")
    gpu = GpuType.objects.create(name="h100", usd_per_hour=4)
    PoolCapacity.objects.create(pool=pool, gpu_type=gpu, gpus_per_replica=2)
    objective = StoredObjective()
    objective.take(Objective("first", "First token", Latency("ttft", 300), 0.9, {"model": "chat"}))
    objective.save()
    return pool


def window(number: int, requests: int, bad: int, now_s: float) -> list[LedgerRow]:
    """A window of five minutes, `number` windows ago, of one replica."""
    start_ns = (int(now_s) // STEP_S - number) * STEP_S * S
    return [
        row(
            number * 10_000 + each,
            entry_start_ns=start_ns + each * (STEP_S * S // requests),
            model="chat",
            tier="standard",
            region="eu",
            pool="chat-eu",
            replica="chat-1",
            cache_outcome="miss",
            ttft_ns=(BAD_MS if each < bad else GOOD_MS) * MS,
            prompt_tokens=500,
            output_tokens=200,
            stages={"queue": 0, "model": 6 * S},
            prefill_ns=1 * S,
            decode_ns=5 * S,
        )
        for each in range(requests)
    ]


def run() -> dict[str, object]:
    job = jobs.start(measured.KIND)
    jobs.run_queued()
    job.refresh_from_db()
    assert job.state == PlanJob.State.DONE, job.error
    return dict(job.result)


def test_the_job_measures_what_a_replica_carries_at_the_pools_objective(store: Store, chat: Pool) -> None:
    now_s = time.time()
    rows = [each for number in (3, 4, 5, 6) for each in window(number, 60, 0, now_s)]
    rows += [each for number in (7, 8, 9, 10) for each in window(number, 120, 60, now_s)]
    store.writer.insert_requests(rows, version=1)
    assert run()["pools_measured"] == 1
    measured_pool = MeasuredPool.objects.get(pool=chat)
    assert (measured_pool.objective, measured_pool.gpu) == ("first", "h100")
    capacity = measured_pool.to_capacity()
    assert capacity is not None and capacity.mix is not None
    assert capacity.requests_per_s == pytest.approx(60 / STEP_S)
    assert (capacity.source, capacity.lower_bound) == ("ledger", False)
    assert (capacity.mix.input_tokens, capacity.mix.output_tokens) == (500, 200)
    assert capacity.batching_factor == pytest.approx(60 * 6 / STEP_S)


def test_starts_are_measured_from_the_process_to_the_first_good_answer(store: Store, chat: Pool) -> None:
    now_s = time.time()
    [first, *_] = window(5, 10, 0, now_s)
    created_s = first.entry_start_ns // S - 60
    write(store, "process_start_time_seconds", [(created_s * S + S, created_s)], replica="chat-1", pool="chat-eu")
    store.writer.insert_requests([first], version=1)
    run()
    starts_s = MeasuredPool.objects.get(pool=chat).starts_s
    assert starts_s == [pytest.approx((first.end_ns - created_s * S) / S)]


def test_without_creations_starts_are_the_loads_that_the_servers_report(store: Store, chat: Pool) -> None:
    start_ns = (int(time.time()) - 3600) * S
    store.writer.insert_loads(
        [Load(b"t" * 16, b"s" * 8, start_ns, start_ns + 62 * S, "vllm", "vllm", "chat", "chat-eu", "")]
    )
    run()
    assert MeasuredPool.objects.get(pool=chat).starts_s == [62.0]


def test_without_traffic_the_reason_says_what_is_missing(store: Store, chat: Pool) -> None:
    assert run()["pools_measured"] == 0
    measured_pool = MeasuredPool.objects.get(pool=chat)
    assert measured_pool.to_capacity() is None
    assert measured_pool.reason == (
        "No request of this pool that first judges was answered in the last 7 days: its capacity is measured once there are some."
    )
    StoredObjective.objects.update(enabled=False)
    run()
    assert MeasuredPool.objects.get(pool=chat).reason.startswith("No latency objective covers requests of this pool")


def test_a_demand_that_is_no_longer_measured_has_no_hit_rate(store: Store, chat: Pool) -> None:
    MeasuredHitRate.objects.create(model="old", hit_rate=0.5, measured_at=timezone.now())
    run()
    assert measured.hit_rates() == {}


def test_the_job_is_queued_once_in_its_period(store: Store) -> None:
    assert measured.queue_if_due() is not None
    assert measured.queue_if_due() is None
    PlanJob.objects.update(created_at=timezone.now() + timedelta(hours=1))
    assert measured.queue_if_due() is not None, "a clock was ahead"


def test_what_a_replica_carried_stays_known_until_the_replica_or_the_objective_is_another(
    store: Store, chat: Pool
) -> None:
    store.writer.insert_requests([r for n in (3, 4, 5, 6) for r in window(n, 120, 0, time.time())], version=1)
    run()
    carried = MeasuredPool.objects.get(pool=chat).capacity
    assert carried["requests_per_s"] == pytest.approx(120 / STEP_S)
    MeasuredPool.objects.update(known={**MeasuredPool.objects.get().known, "gone": {"basis": "x", "capacity": None}})
    known = MeasuredPool.objects.get(pool=chat).known
    known["first"]["capacity"]["requests_per_s"] *= 2  # as if a week ago, and out of the window by now
    MeasuredPool.objects.update(known=known)
    run()
    again = MeasuredPool.objects.get(pool=chat)
    assert again.capacity["requests_per_s"] == pytest.approx(240 / STEP_S)
    assert "which it carried until" in again.reason
    PoolCapacity.objects.update(gpus_per_replica=4)
    run()
    assert MeasuredPool.objects.get(pool=chat).capacity["requests_per_s"] == pytest.approx(120 / STEP_S)
