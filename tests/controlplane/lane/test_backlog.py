"""The lane's work in plans: what is open, and what a pool does of it."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from controlplane.fleet.models import Pool
from controlplane.lane.backlog import Estimates, TooLateError
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.http.edge import edge
from controlplane.lane.models import Batch
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, claims
from controlplane.planning.models import GpuQuota, ReplicaCapacityEntry
from controlplane.planning.open_work import open_work, planned_work
from controlplane.policy.observe import planned
from forecasting.capacity.assumptions import TokenMix
from inference.contract.lane import END_HEADER, TENANT_HEADER
from tests.support.lane.stored import begun, new_job
from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts

MODEL = "chat-large"
AS_GATEWAY = {"authorization": "Bearer token", TENANT_HEADER: "alice"}
pytestmark = pytest.mark.django_db


def waits(home: Path, lines: int, **fields: object) -> Batch:
    """A batch of so many lines of a model that is planned."""
    batch = begun(Folder(home / "lane"), 1)
    Batch.objects.filter(pk=batch.pk).update(model=MODEL, total=lines, **fields)
    return batch


def test_lines_that_nobody_waits_for_are_open_until_they_end(home: Path) -> None:
    objects = Folder(home / "lane")
    assert open_work() == []
    batch = begun(objects, 3)
    Batch.objects.filter(pk=batch.pk).update(completed=1, input_tokens=40, output_tokens=10)
    new_job(objects, window=SOONEST)
    job = new_job(objects, window="2h")
    soon, later = open_work()
    assert (soon.lines, later.lines) == (1, 2)
    assert 0 <= job.expires_at.timestamp() - soon.due_s < 60
    assert later.mix == soon.mix == TokenMix(40, 10)
    silent = begun(objects, 3)
    Batch.objects.filter(pk=silent.pk).update(completed=3)
    assert open_work()[0].mix == TokenMix(40, 10), "tokens that its answers do not say are unknown, and not 0"
    batches.cancel(batch.tenant, batch.name)
    assert [work.lines for work in open_work()] == [1]


@pytest.fixture
def fleet(home: Path) -> None:
    plan_fleet()
    store_forecasts()


def test_the_plan_of_policies_has_replicas_for_lines_that_would_be_late(fleet: None, home: Path) -> None:
    GpuQuota.objects.all().delete()
    assert all(pool.lines_replicas is None for pool in planned.read(time.time()).pools.values())
    waits(home, 2_000_000, expires_at=claims.now() + timedelta(hours=1))
    large = {name: pool for name, pool in planned.read(time.time()).pools.items() if name.startswith(MODEL)}
    assert large and all(pool.lines_replicas and pool.lines_reason for pool in large.values())
    assert any("more in" in pool.lines_reason for pool in large.values())


def test_of_a_pool_that_is_not_known_one_replica_is_kept_for_lines(home: Path) -> None:
    plan_fleet()
    waits(home, 10)
    assert not any(plan.is_known for plan in planned_work(open_work()))
    large = {name: pool for name, pool in planned.read(time.time()).pools.items() if name.startswith(MODEL)}
    assert {pool.lines_replicas for pool in large.values()} == {1}


@pytest.fixture
def sure(fleet: None, home: Path) -> None:
    """What a line takes and how many replicas may be is known."""
    for pool in Pool.objects.filter(variant__model__name=MODEL).select_related("region"):
        gpu = pool.capacity.gpu_type
        GpuQuota.objects.update_or_create(region=pool.region, gpu_type=gpu, defaults={"gpus": 100})
    waits(home, 10, completed=5, input_tokens=500, output_tokens=500, status="completed")


def test_what_the_plan_cannot_finish_is_refused_with_the_earliest_time(sure: None) -> None:
    estimates, now_s = Estimates(), time.time()
    end_s = estimates.admit(MODEL, 100, 86_400)
    assert end_s is not None and now_s < end_s <= now_s + 86_400
    with pytest.raises(TooLateError) as refused:
        estimates.admit(MODEL, 500_000, 600)
    assert refused.value.end_s is not None and refused.value.end_s > now_s + 600
    assert refused.value.retry_after_s == pytest.approx(refused.value.end_s - now_s - 600, abs=60)
    assert "500,000 lines more would be done at 20" in str(refused.value)
    with pytest.raises(TooLateError) as never:
        estimates.admit(MODEL, 10**12, 86_400)
    assert never.value.end_s is None and "not within 26 hours" in str(never.value)


@pytest.mark.parametrize("lacks", ["quota", "tokens", "capacity", "model"])
def test_what_is_not_known_refuses_nothing(sure: None, lacks: str) -> None:
    if lacks == "quota":
        GpuQuota.objects.filter(region__name="us").delete()
    if lacks == "tokens":
        Batch.objects.all().delete()
    if lacks == "capacity":
        ReplicaCapacityEntry.objects.filter(pool__pool__region__name="us").delete()
    end_s = Estimates().admit("unheard of" if lacks == "model" else MODEL, 10**9, 3_600)
    assert end_s is None


def test_an_open_batch_says_when_the_plan_has_it_done_and_one_that_somebody_waits_for_does_not(
    sure: None, home: Path
) -> None:
    batch = waits(home, 100)
    batch.refresh_from_db()
    end_s = Estimates().end_s(batch)
    assert end_s is not None and time.time() < end_s < batch.expires_at.timestamp()
    Batch.objects.filter(pk=batch.pk).update(completion_window=SOONEST)
    batch.refresh_from_db()
    assert Estimates().end_s(batch) is None


def test_who_asks_something_else_does_not_wait_for_a_plan() -> None:
    estimates = Estimates()

    def slow() -> str:
        with ThreadPoolExecutor(1) as other:
            assert other.submit(estimates._once, "another question", lambda: "its answer").result(10) == "its answer"
        return "known"

    assert [estimates._once("a question", slow) for _ in range(2)] == ["known", "known"]


async def test_a_refusal_is_429_with_when_to_come_again() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        raise TooLateError(9, 1_000.0, 4_600.0, 0.0)

    answer = await edge("token")(make_mocked_request("GET", "/v1/batches", AS_GATEWAY), refuse)
    assert answer.status == 429
    assert (answer.headers["retry-after"], answer.headers[END_HEADER]) == ("3600", "4600")
    assert answer.headers["x-should-retry"] == "false"
