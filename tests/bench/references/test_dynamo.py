import pytest

from forecasting.simulate.outcome import Objective
from forecasting.simulate.profile import ReplicaProfile
from tests.bench.references.dynamo import Dynamo, Predictor
from tests.support.forecasting.simulate import requests, seen

PROFILE = ReplicaProfile(prefill_s=0, prefill_token_s=1e-4, step_s=0.02, step_sequence_s=0.001, max_sequences=64)


def dynamo(predictor: Predictor, **targets: float) -> Dynamo:
    policy = Dynamo(PROFILE, Objective(0.95, **targets), predictor)
    policy.begin(requests(), 1)
    return policy


def test_an_engine_carries_the_largest_batch_within_its_targets() -> None:
    # A pass of b requests takes 20 ms + b (1 ms + 100 / 50 × 0.1 ms): 45 ms for 20 of them, 46.2 for 21.
    rate_rps = dynamo("constant", itl_s=0.045).capacity_rps(100, 50)
    assert rate_rps == pytest.approx(20 / (50 * 0.044))
    assert dynamo("constant", itl_s=1.0, ttft_s=5.0).capacity_rps(100, 50) == pytest.approx(64 / (50 * 0.0968))


def test_a_target_that_cannot_be_met_leaves_the_rate_of_a_request_at_a_time() -> None:
    assert dynamo("constant", itl_s=0.001).capacity_rps(100, 50) == pytest.approx(1 / (50 * 0.0212))


def observed(rate_rps: float) -> dict[str, float]:
    arrived = rate_rps * 180
    return {
        "window_s": 180,
        "arrived": arrived,
        "input_tokens": arrived * 100,
        "output_tokens": arrived * 50,
        "wanted": 3,
    }


def test_replicas_are_the_predicted_rate_over_that() -> None:
    policy = dynamo("constant", itl_s=0.045)
    assert policy.decide(seen(**observed(40))) == -(-40 // policy.capacity_rps(100, 50))
    assert policy.decide(seen(window_s=180, wanted=3)) == 3


def test_kalman_follows_a_trend_a_step_ahead() -> None:
    policy = dynamo("kalman", itl_s=0.045)
    capacity_rps = policy.capacity_rps(100, 50)
    wanted = [policy.decide(seen(**observed(10 + 5 * step))) for step in range(40)]
    assert wanted[-1] == -(-(10 + 5 * 40) // capacity_rps)


def test_prophet_sees_fifty_points_and_begins_with_the_last_value() -> None:
    policy = dynamo("prophet", itl_s=0.045)
    capacity_rps = policy.capacity_rps(100, 50)
    wanted = [policy.decide(seen(**observed(20 + step))) for step in range(6)]
    assert wanted[0] == -(-20 // capacity_rps)
    assert wanted[-1] == pytest.approx(26 / capacity_rps, abs=1.01)
