import pytest

from forecasting.simulate.outcome import Objective
from forecasting.simulate.profile import ReplicaProfile
from tests.bench.references.llmd import LlmdSlo
from tests.bench.references.queueing import BatchingServer, batching_capacity_rps, batching_latency_s
from tests.support.forecasting.simulate import QUICK, seen


def test_a_batch_of_a_single_request_is_m_m_1() -> None:
    server = BatchingServer(0.01, 0.0, 0.0, 1, 2000, 100.0, 9.0)
    service_s = 0.01 * 10  # its prefill and nine tokens
    for load in (0.3, 0.8):
        ttft_s, itl_s = batching_latency_s(server, load / service_s)
        assert ttft_s == pytest.approx(load / (1 - load) * service_s + 0.02, rel=1e-3)
        assert itl_s == pytest.approx(0.01)


def test_latencies_grow_with_the_rate_and_capacity_is_where_a_target_is_met() -> None:
    server = BatchingServer(0.02, 1e-4, 1e-6, 8, 100, 300.0, 50.0)
    for targets in ((0.5, 0.0), (0.0, 0.024), (0.3, 0.05)):
        rate_rps = batching_capacity_rps(server, *targets)
        reached = batching_latency_s(server, rate_rps)
        beyond = batching_latency_s(server, rate_rps * 1.01)
        assert all(target == 0 or at <= target for at, target in zip(reached, targets, strict=True))
        assert any(target > 0 and at > target for at, target in zip(beyond, targets, strict=True))


def test_targets_that_cannot_be_met_have_no_capacity_and_ones_that_always_are_have_that_of_the_full_batch() -> None:
    server = BatchingServer(0.02, 1e-4, 1e-6, 8, 100, 300.0, 50.0)
    assert batching_capacity_rps(server, 0.01, 0.0) == 0
    assert batching_capacity_rps(server, 1e9, 1e9) == batching_capacity_rps(server, 0.0, 0.0) > 0


def test_replicas_are_the_rate_over_what_a_replica_carries() -> None:
    law = LlmdSlo(QUICK, Objective(0.95, ttft_s=0.5, itl_s=0.05))
    capacity_rps = law.capacity_rps(100, 50)
    observed = seen(arrived=60 * 10, input_tokens=60 * 10 * 100, output_tokens=60 * 10 * 50, wanted=2)
    assert law.decide(observed) == -(-10 // capacity_rps)


def test_it_holds_without_traffic_and_where_targets_cannot_be_met() -> None:
    observed = seen(arrived=600, input_tokens=60_000, output_tokens=30_000, wanted=7)
    assert LlmdSlo(QUICK, Objective(0.95, ttft_s=0.5)).decide(seen(wanted=7)) == 7
    assert LlmdSlo(QUICK, Objective(0.95, ttft_s=1e-4)).decide(observed) == 7


def test_an_objective_end_to_end_leaves_targets_to_its_multiplier() -> None:
    law = LlmdSlo(ReplicaProfile(0, 1e-4, 0.02, 0.001, 32), Objective(0.95, e2e_s=5))
    assert 0 < law.capacity_rps(100, 50) < 32 / (50 * 0.052)
