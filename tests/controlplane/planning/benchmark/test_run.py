"""A benchmark as the worker runs it, against a server with OpenAI's API whose capacity follows from its slots and its speed."""

import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from controlplane.fleet.models import Pool
from controlplane.planning import jobs
from controlplane.planning.benchmark import run
from controlplane.planning.benchmark.wanted import wanted_of
from controlplane.planning.core.judging import StepFigures
from controlplane.planning.inputs import pools
from controlplane.planning.jobs import JobRefusedError
from controlplane.planning.models import PlanJob, PoolCapacity, ReplicaCapacityEntry
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from deploy.local.process import Command, Managed, http_ok
from forecasting.capacity import benchmark
from tests.support.planning.benchmarked import benchmarked_pool
from tests.support.servers import slow_replica
from tests.support.start import Start
from tests.support.telemetry.samples import S, row
from tests.support.wait import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
TOKENS, STEP_MS, SLOTS = 2, 10, 2
CARRIES_RPS = SLOTS / (TOKENS * STEP_MS / 1000)
WANTED = {"pool": "chat-eu", "gpu": "h100", "input_tokens": 8, "output_tokens": TOKENS, "e2e_ms": 300, "target": 0.8}


@pytest.fixture
def pool(transactional_db: None) -> Pool:
    """Its replica is not started."""
    return benchmarked_pool(1)


@pytest.fixture
def server(transactional_db: None, start: Start) -> Managed:
    port = free_port()
    argv = (sys.executable, "-S", "-I", slow_replica.__file__, *map(str, (port, "chat", TOKENS, STEP_MS, SLOTS)))
    managed = start(Command("replica", argv, ready=lambda: http_ok(port, "/health")))
    benchmarked_pool(port)
    return managed


@pytest.fixture(autouse=True)
def quick(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(answers, "store", lambda: store)
    monkeypatch.setattr(benchmark, "MIN_WINDOW_S", 0.4)
    monkeypatch.setattr(benchmark, "WINDOW_THRESHOLDS", 1.0)
    monkeypatch.setattr(benchmark, "TOLERANCE", 0.45)  # the middle of a doubling is near enough
    monkeypatch.setattr(jobs, "REPORT_EVERY_S", 0.0)
    return store


def started(**changes: object) -> PlanJob:
    return run.start(WANTED | changes, "olga")


def ended(job: PlanJob) -> PlanJob:
    jobs.run_queued()
    job.refresh_from_db()
    return job


def test_it_raises_the_load_until_the_objective_is_lost_and_enters_the_capacity(server: Managed) -> None:
    job = ended(started())
    assert (job.state, job.error) == ("done", "")
    steps = job.result["steps"]
    lost = min(step["requests_per_s"] for step in steps if not step["kept"])
    entry = ReplicaCapacityEntry.objects.get()
    assert entry.requests_per_s == pytest.approx(job.result["requests_per_s"], rel=1e-3)
    assert entry.requests_per_s < lost <= entry.requests_per_s * (1 + benchmark.TOLERANCE) * 1.001
    # What two slots carry at most, and the little that a short step lets through.
    assert entry.requests_per_s < 2 * CARRIES_RPS
    assert (entry.source, entry.gpu_type.name, entry.pool.gpu_type) == ("benchmark", "h100", entry.gpu_type)
    assert (entry.input_tokens, entry.output_tokens) == (8, TOKENS)
    assert entry.batching_factor is not None and entry.batching_factor > 0
    sent = sum(step["sent"] for step in steps)
    assert f"UTC by olga: {sent} requests to r0, E2E at most 300 ms for 80 %." in entry.note
    [planned] = pools()
    assert planned.capacities["h100"].source == "benchmark"


def test_a_replica_that_ends_stops_it_at_once_and_nothing_is_entered(server: Managed) -> None:
    job = started()
    worker = threading.Thread(target=jobs.run_queued)
    worker.start()
    try:
        eventually(lambda: PlanJob.objects.get(pk=job.pk).result.get("steps"))
    finally:
        server.stop()
        worker.join(120)
    job.refresh_from_db()
    assert job.state == "failed" and job.error.startswith("The replica failed: ")
    assert job.result["steps"], "what was measured before stays"
    assert not ReplicaCapacityEntry.objects.exists()


def test_it_can_be_cancelled_in_the_middle_of_a_step(server: Managed) -> None:
    job = started(target=0.99, e2e_ms=2000)
    worker = threading.Thread(target=jobs.run_queued)
    worker.start()
    try:
        eventually(
            lambda: "requests answered" in PlanJob.objects.get(pk=job.pk).note,
            lambda: str(PlanJob.objects.filter(pk=job.pk).values("state", "note", "error", "result").get()),
        )
        jobs.cancel(job)
    finally:
        worker.join(120)
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_a_worker_that_takes_it_up_goes_on_with_the_steps_measured_until_the_limit(server: Managed) -> None:
    figures = StepFigures(10.0, 40, 30, 30, True, True, 0.1, 0.2, 0.4, 8.0, 4.0, 0, 1.0, 9.8)
    lost = replace(figures, requests_per_s=20.0, good=3, kept=False, took_s=run.request_of(WANTED).limit_s - 10.0)  # type: ignore[attr-defined]
    steps = [asdict(figures), asdict(lost)]
    job = PlanJob.objects.create(kind=run.KIND, request=WANTED | {"target": 0.999}, result={"steps": steps})
    assert ended(job).error == ""
    assert job.result["steps"] == steps, "5,000 requests do not fit into the 10 s that are left"
    assert (job.result["requests_per_s"], job.result["lower_bound"]) == (10.0, True)
    assert "At least 10 requests/s, and less than 20" in ReplicaCapacityEntry.objects.get().note


def test_where_users_send_requests_it_must_be_confirmed(pool: Pool, quick: Store) -> None:
    recent_ns = time.time_ns() - 20 * S
    users = [row(n, entry_start_ns=recent_ns + n, pool="chat-eu", replica="r0", cache_outcome="miss") for n in range(3)]
    quick.writer.insert_requests(users, version=1)
    with pytest.raises(JobRefusedError, match=r"replica='r0': It has answered 3 requests of users in the last 120 s"):
        started()
    assert wanted_of(WANTED | {"despite_traffic": True}).users_traffic


@pytest.mark.parametrize("confirmed", [False, True])
def test_it_ends_where_users_requests_come_meanwhile(server: Managed, quick: Store, confirmed: bool) -> None:
    job = started(despite_traffic=confirmed)
    worker = threading.Thread(target=jobs.run_queued)
    worker.start()
    try:
        eventually(lambda: PlanJob.objects.get(pk=job.pk).result.get("steps"))
        user = row(1, entry_start_ns=time.time_ns(), pool="chat-eu", replica="r0", cache_outcome="miss")
        quick.writer.insert_requests([user], version=1)
    finally:
        worker.join(60)
    job.refresh_from_db()
    if confirmed:
        assert job.state == "done"
    else:
        assert job.state == "failed"
        assert (
            "replica='r0': It has answered 1 request of users in the last 120 s, so the benchmark has ended"
            in job.error
        )
        assert not ReplicaCapacityEntry.objects.exists()


def test_the_pool_s_objectives_and_the_ledger_s_mix_count_where_nothing_is_entered(pool: Pool, quick: Store) -> None:
    objective = StoredObjective()
    objective.take(Objective("first", "First token", Latency("ttft", 300), 0.9, {"model": "chat", "tier": "premium"}))
    objective.save()
    other = StoredObjective()
    other.take(Objective("other", "Other model", Latency("ttft", 300), 0.9, {"model": "code"}))
    other.save()
    hour_ago_ns = time.time_ns() - 3600 * S
    quick.writer.insert_requests(
        [
            row(n, entry_start_ns=hour_ago_ns + n, pool="chat-eu", replica="r0", cache_outcome=outcome,
                prompt_tokens=100 + n, output_tokens=10)
            for n, outcome in enumerate(("miss", "miss", "hit"))
        ],
        version=1,
    )  # fmt: skip
    wanted = wanted_of({"pool": "chat-eu", "gpu": "h100"})
    assert [str(criterion) for criterion in wanted.criteria] == ["TTFT at most 300 ms for 90 % (first)"]
    assert set(wanted.lengths) == {(100, 10), (101, 10)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": "chat-us"}, "pool='chat-us' is unknown: there are chat-eu"),
        ({"replica": "r9"}, "replica='r9' is not of pool 'chat-eu': it has r0"),
        ({"gpu": ""}, "gpu is missing: pool 'chat-eu' has no GPU type yet"),
        ({"gpu": "H 100"}, "gpu='H 100' is not a name"),
        ({"output_tokens": None}, "output_tokens is missing: give the mean of both"),
        ({"input_tokens": None, "output_tokens": None}, "the ledger has no request of pool 'chat-eu'"),
        ({"e2e_ms": None, "target": None}, "has no latency objective"),
        ({"e2e_ms": None}, "target=0.8 has no threshold"),
        ({"target": 1.5}, "target=1.5 is not between 0.5 and 0.999"),
        ({"limit_s": 100_000}, "limit_s=100000 is not between 30 and 3600"),
        ({"speed": 3}, "unknown field `speed`"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_remedy(
    pool: Pool, changes: dict[str, object], message: str
) -> None:
    given = {name: value for name, value in (WANTED | changes).items() if value is not None}
    with pytest.raises(JobRefusedError, match=message.replace("(", r"\(")):
        run.start(given, "olga")
    assert not PlanJob.objects.exists() and not PoolCapacity.objects.exists()


def test_two_benchmarks_do_not_run_beside_each_other(pool: Pool) -> None:
    job = started()
    assert started().pk == job.pk
    with pytest.raises(JobRefusedError, match=rf"Job {job.pk} measures a replica of pool 'chat-eu': wait for its end"):
        started(target=0.9)
