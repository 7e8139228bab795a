"""What a plan is made of, out of the database."""

import pytest

from controlplane.fleet.models import Pool
from controlplane.planning.inputs import ASSUMED_COLD_START_S, UNKNOWN_GPU, plan_inputs
from controlplane.planning.models import PlanSettings, PoolCapacity, ReplicaCapacityEntry, StoredForecast
from tests.support.planning.fleet import EU_GPUS, plan_fleet
from tests.support.planning.stored import SERIES, store_forecasts

NOW_S = 1_795_000_000 // 3600 * 3600


@pytest.fixture
def fleet(db: None, served: object) -> None:
    plan_fleet()


def test_the_fleet_with_what_people_entered(fleet: None) -> None:
    PlanSettings.objects.create(level=0.95, margin_s=90, budget_usd_per_month=1000.0)
    inputs = plan_inputs(NOW_S, 24)
    assert (inputs.level, inputs.margin_s, inputs.budget_usd_per_month) == (0.95, 90, 1000.0)
    assert [(quota.region, quota.gpu, quota.gpus) for quota in inputs.quotas] == [("eu", "h100", EU_GPUS)]
    assert inputs.usd_per_gpu_hour == {"a100": 2.1, "h100": 4.2}
    pools = {pool.pool: pool for pool in inputs.pools}
    assert set(pools["chat-large-eu"].capacities) == {"h100", "a100"} and not pools["chat-small-us"].capacities
    assert pools["chat-large-eu"].capacities["h100"].source == "benchmark"
    assert pools["chat-large-eu"].cold_start.p90_s == 240


def test_a_benchmark_run_counts_before_a_persons_figure(fleet: None) -> None:
    entry = ReplicaCapacityEntry.objects.get(pool__pool__name="chat-large-eu", gpu_type__name="h100")
    ReplicaCapacityEntry.objects.create(
        pool=entry.pool, gpu_type=entry.gpu_type, source=ReplicaCapacityEntry.Source.ENTERED, requests_per_s=99.0
    )
    pool = next(pool for pool in plan_inputs(NOW_S, 24).pools if pool.pool == "chat-large-eu")
    assert pool.capacities["h100"].requests_per_s == entry.requests_per_s


def test_a_pool_of_which_nothing_was_entered_has_no_capacity_and_an_assumed_cold_start(fleet: None) -> None:
    PoolCapacity.objects.all().delete()
    pool = plan_inputs(NOW_S, 24).pools[0]
    assert (pool.gpu, dict(pool.capacities)) == (UNKNOWN_GPU, {})
    assert pool.cold_start.p90_s == ASSUMED_COLD_START_S and "assumed" in pool.cold_start.reason


def test_disabled_pools_are_left_out(fleet: None) -> None:
    Pool.objects.filter(region__name="us").update(enabled=False)
    assert {pool.region for pool in plan_inputs(NOW_S, 24).pools} == {"eu"}


def test_the_shortest_forecast_that_reaches_the_end_is_taken_else_the_longest(fleet: None) -> None:
    store_forecasts(NOW_S)
    StoredForecast.objects.filter(measure="input_tokens").delete()
    demands = plan_inputs(NOW_S, 24).demands
    assert [(demand.model, demand.tier, demand.region) for demand in demands] == sorted(SERIES)
    assert all(demand.requests.end_s - NOW_S == 604_800 and demand.input_tokens is None for demand in demands)
    StoredForecast.objects.filter(horizon_s=1800).update(horizon_s=2 * 86_400)
    assert all(len(demand.requests) == 2 for demand in plan_inputs(NOW_S, 24).demands)
