"""A replica's profile from what it carries."""

import pytest

from forecasting.capacity.assumptions import ReplicaCapacity, TokenMix
from forecasting.simulate.arrivals import Lengths
from forecasting.simulate.fitted import fitted_profile, profile_of
from forecasting.simulate.outcome import Objective
from tests.support.forecasting.simulated_capacity import capacity_rps

LENGTHS = Lengths.around(500, 100)


def test_a_full_replica_has_the_measured_batch_at_the_measured_load() -> None:
    capacity = ReplicaCapacity(2.0, "ledger", TokenMix(500, 101), input_share=0.25, batching_factor=12, slots=16)
    profile = profile_of(capacity)
    request_s = 12 / 16 / 2.0
    assert profile.prefill_token_s * 500 == pytest.approx(0.25 * request_s)
    assert profile.step_s * 100 / 16 == pytest.approx(0.75 * request_s)
    assert profile.max_sequences == 16


@pytest.mark.parametrize("batching_factor", [None, 2])
def test_the_fitted_replica_carries_what_was_measured_and_no_more(batching_factor: float | None) -> None:
    capacity = ReplicaCapacity(1.5, "ledger", batching_factor=batching_factor, slots=8, measured_replicas=4)
    objective = Objective(0.95, ttft_s=1.0)
    profile = fitted_profile(capacity, LENGTHS, objective)
    assert profile is not None
    assert capacity_rps(profile, LENGTHS, objective, replicas=4) == pytest.approx(1.5, rel=0.05)


def test_an_objective_that_nothing_keeps_has_no_profile() -> None:
    assert fitted_profile(ReplicaCapacity(1.5, "entered"), LENGTHS, Objective(0.95, ttft_s=1e-6)) is None
