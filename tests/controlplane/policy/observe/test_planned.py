"""What ticks know of planning."""

import time

import pytest

from controlplane.planning.models import GpuType, PoolCapacity, StoredForecast
from controlplane.policy.observe import planned
from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db


def test_a_pool_that_nobody_has_measured_or_planned_yet_is_known_without_a_capacity() -> None:
    stored_pool("chat-local")
    seen = planned.read(time.time())
    assert list(seen.pools) == ["chat-local"]
    assert seen.pools["chat-local"].capacity is None
    assert seen.pools["chat-local"].warm is None


@pytest.mark.parametrize(("usd", "each", "known"), [(0.0, 2, None), (4.0, 2, 8.0), (0.0, 0, 0.0)])
def test_gpus_that_nobody_has_priced_are_not_free(usd: float, each: int, known: float | None) -> None:
    """As the plan has it: a benchmark makes a GPU type without a price. A replica without GPUs costs none."""
    gpu = GpuType.objects.create(name="h100", usd_per_hour=usd)
    PoolCapacity.objects.create(pool=stored_pool("chat-local"), gpu_type=gpu, gpus_per_replica=each)
    assert planned.read(time.time()).pools["chat-local"].usd_per_replica_hour == known


def test_a_forecast_that_cannot_be_read_leaves_its_own_pools_without_a_plan(served: object) -> None:
    plan_fleet()
    store_forecasts()
    StoredForecast.objects.filter(model="chat-large", region="us").update(quantiles={"0.5": [1.0]})
    pools = planned.read(time.time()).pools
    assert {name for name, pool in pools.items() if pool.warm is not None} == {"chat-large-eu", "chat-small-eu"}
