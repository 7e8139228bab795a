"""The lane's work in plans: what is open, and what a pool does of it."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.models import Batch
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, claims
from controlplane.planning.models import GpuQuota
from controlplane.planning.open_work import open_work, planned_work
from controlplane.policy.observe import planned
from forecasting.capacity.assumptions import TokenMix
from tests.support.lane.stored import begun, new_job
from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts

MODEL = "chat-large"
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
