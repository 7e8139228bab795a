"""What a plan is made of, out of the database."""

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from controlplane.fleet.models import Pool
from controlplane.planning.inputs import UNKNOWN_GPU, plan_inputs
from controlplane.planning.models import (
    GpuType,
    MeasuredHitRate,
    MeasuredPool,
    PlanSettings,
    PoolCapacity,
    ReplicaCapacityEntry,
    StoredForecast,
)
from forecasting.capacity.assumptions import PoolAssumptions, ReplicaCapacity, TokenMix
from forecasting.capacity.deadlines import OpenWork, work_plans
from forecasting.capacity.replica_capacity import ASSUMED_COLD_START_S
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.warm_plan import warm_plans
from forecasting.forecast import LEVELS
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


@pytest.mark.parametrize(
    "stored",
    [
        {"quantiles": {"0.5": [1.0, 2.0]}},
        {"quantiles": {level: [1.0] * (1 + at) for at, level in enumerate(map(str, LEVELS))}},
        {"quantiles": {level: ["a"] for level in map(str, LEVELS)}},
        {"quantiles": {level: [[1.0]] for level in map(str, LEVELS)}},
        {"quantiles": dict.fromkeys(map(str, LEVELS), 1.0)},
        {"quantiles": {"median": [1.0]}},
        {"quantiles": [1.0]},
        {"step_s": 0},
    ],
)
def test_a_forecast_that_cannot_be_read_is_said_and_stops_no_other(fleet: None, stored: dict[str, object]) -> None:
    store_forecasts(NOW_S)
    model, tier, region = SERIES[1]
    of_series = StoredForecast.objects.filter(model=model, tier=tier, region=region)
    of_series.filter(horizon_s=604_800).update(**stored)
    inputs = plan_inputs(NOW_S, 24)
    assert [len(demand.requests) for demand in inputs.demands] == [672, 2, 672], "the other horizon is taken"
    of_series.update(**stored)
    inputs = plan_inputs(NOW_S, 24)
    assert [len(demand.requests) for demand in inputs.demands] == [672, 0, 672]
    (said,) = [note for note in make_plan(inputs).notes if "cannot be read" in note]
    assert said.startswith("chat-large / standard / us: ")
    works = work_plans(inputs, [OpenWork("chat-large", 100.0, NOW_S + 80_000)], NOW_S)
    assert {plan.pool: plan.is_known for plan in works} == {"chat-large-eu": True, "chat-large-us": False}
    assert [plan.pool for plan in warm_plans(inputs) if "cannot be read" in plan.reason] == ["chat-large-us"]


def test_a_measured_capacity_that_cannot_be_read_is_not_known(fleet: None) -> None:
    measured_pool(requests_per_s=-1.0)
    assert large_eu().capacities["h100"].source == "benchmark"


def measured_pool(gpu: str = "h100", **capacity: object) -> None:
    """The pool chat-large-eu as the ledger saw it."""
    MeasuredPool.objects.create(
        pool=Pool.objects.get(name="chat-large-eu"),
        measured_at=timezone.now(),
        gpu=gpu,
        objective="first",
        capacity={"requests_per_s": 3.0, "source": "ledger", "mix": {"input_tokens": 400, "output_tokens": 90}}
        | capacity,
        reason="a test",
        starts_s=[30.0, 31.0, 32.0, 33.0, 80.0],
    )


def large_eu() -> PoolAssumptions:
    return next(pool for pool in plan_inputs(NOW_S, 24).pools if pool.pool == "chat-large-eu")


def test_what_was_measured_counts_before_what_was_entered(fleet: None) -> None:
    measured_pool()
    pool = large_eu()
    assert pool.capacities["h100"] == ReplicaCapacity(3.0, "ledger", TokenMix(400, 90))
    assert pool.capacities["a100"].source == "entered"
    assert (pool.cold_start.p90_s, pool.cold_start.source, pool.cold_start.starts) == (80.0, "ledger", 5)


def test_how_many_gpus_a_replica_has_is_said_by_the_pool(fleet: None) -> None:
    """Of its own type, wherever its capacity is from; an entry says it of other types."""
    own = PoolCapacity.objects.get(pool__name="chat-large-eu")
    PoolCapacity.objects.filter(pk=own.pk).update(gpus_per_replica=4)
    assert {gpu: each.gpus_per_replica for gpu, each in large_eu().capacities.items()} == {"h100": 4, "a100": 4}
    own.entries.update(gpus_per_replica=8)
    pool = large_eu()
    assert (pool.gpus_per_replica, pool.capacities["h100"].gpus_per_replica) == (4, 4)
    assert pool.capacities["a100"].gpus_per_replica == 8
    measured_pool()
    assert (large_eu().capacities["h100"].source, large_eu().capacities["h100"].gpus_per_replica) == ("ledger", 4)


def test_an_entry_that_contradicts_its_pool_is_refused(fleet: None) -> None:
    entry = ReplicaCapacityEntry.objects.get(pool__pool__name="chat-large-eu", gpu_type__name="h100")
    entry.gpus_per_replica = 3
    with pytest.raises(ValidationError, match="3 is not what the pool has, 1: leave this empty"):
        entry.full_clean()
    entry.gpus_per_replica = 1
    entry.full_clean()
    entry.gpus_per_replica, entry.gpu_type = 3, GpuType.objects.create(name="l4", usd_per_hour=1.0)
    entry.full_clean()


def test_a_lower_bound_of_the_ledger_yields_to_a_higher_benchmark(fleet: None) -> None:
    measured_pool(requests_per_s=0.5, lower_bound=True)
    assert large_eu().capacities["h100"].source == "benchmark"


def test_what_was_measured_on_another_gpu_type_is_left_out(fleet: None) -> None:
    measured_pool(gpu="a100")
    assert large_eu().capacities["h100"].source == "benchmark"


def test_the_measured_hit_rate_belongs_to_its_demand(fleet: None) -> None:
    store_forecasts(NOW_S)
    model, tier, region = SERIES[0]
    MeasuredHitRate.objects.create(model=model, tier=tier, region=region, hit_rate=0.25, measured_at=timezone.now())
    rates = {(demand.model, demand.tier, demand.region): demand.hit_rate for demand in plan_inputs(NOW_S, 24).demands}
    assert rates == dict.fromkeys(SERIES, 0.0) | {SERIES[0]: 0.25}
