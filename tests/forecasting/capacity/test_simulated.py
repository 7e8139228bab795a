"""What the plan expects of other pools and other requests, against the simulator, which knows nothing of these formulas."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from forecasting.capacity.assumptions import ReplicaCapacity, TokenMix
from forecasting.capacity.demand_on_pools import Load, work
from forecasting.capacity.pool_capacity import carried_rps
from forecasting.series import Series
from forecasting.simulate.arrivals import Lengths, from_rates
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.support.forecasting.simulated_capacity import capacity_rps

PROFILE = ReplicaProfile(0.00746, 0.0000464, 0.00849, 0.000233, max_sequences=16)
FIRST_TOKEN = Objective(target=0.95, ttft_s=0.5)
MEASURED = 8
INPUTS, OUTPUTS, SPREAD = 500.0, 200.0, 0.7
LENGTHS = Lengths.around(INPUTS, OUTPUTS, SPREAD)


@cache
def measured() -> ReplicaCapacity:
    """Of eight replicas at their limit, as the ledger would have it."""
    rps = capacity_rps(PROFILE, LENGTHS, FIRST_TOKEN, replicas=MEASURED)
    arrivals = from_rates(Series(0, 60, np.full(20, rps * MEASURED)), LENGTHS, seed=1)
    pool = Pool(PROFILE, min_replicas=MEASURED, max_replicas=MEASURED)
    outcome = replay(arrivals, pool, Fixed(MEASURED, tick_s=60), FIRST_TOKEN)
    batch = float(np.mean(outcome.steps.running)) / MEASURED
    prefill_s = PROFILE.prefill_s + PROFILE.prefill_token_s * INPUTS
    decode_s = (PROFILE.step_s + batch * PROFILE.step_sequence_s) * OUTPUTS
    return ReplicaCapacity(
        rps,
        "ledger",
        TokenMix(INPUTS, OUTPUTS),
        input_share=prefill_s / (prefill_s + decode_s / batch),
        batching_factor=batch,
        slots=PROFILE.max_sequences,
        measured_replicas=MEASURED,
    )


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_smaller_pools_carry_what_the_simulator_says(replicas: int) -> None:
    simulated = capacity_rps(PROFILE, LENGTHS, FIRST_TOKEN, replicas=replicas)
    assert carried_rps(replicas, measured()) / replicas == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize(("inputs", "outputs"), [(1.0, 1.3), (2.0, 1.0), (1.0, 0.5)])
def test_longer_requests_need_what_the_simulator_says(inputs: float, outputs: float) -> None:
    lengths = Lengths.around(INPUTS * inputs, OUTPUTS * outputs, SPREAD)
    simulated = capacity_rps(PROFILE, lengths, FIRST_TOKEN, replicas=MEASURED)
    heavier = work(Load("", "", np.ones(1), np.ones(1), inputs=inputs, outputs=outputs), measured())
    assert measured().requests_per_s / heavier == pytest.approx(simulated, rel=0.05)


KV_TOKENS = 12_000
"""Room for 20 requests of the measured mix, and for 8 whose answers are ten times as long."""


@pytest.mark.parametrize("outputs", [1.0, 4.0, 10.0])
def test_long_answers_need_what_the_simulator_says_where_memory_is_the_limit(outputs: float) -> None:
    lengths = Lengths.around(INPUTS, OUTPUTS * outputs, SPREAD)
    simulated = capacity_rps(replace(PROFILE, kv_tokens=KV_TOKENS), lengths, FIRST_TOKEN, replicas=MEASURED)
    heavier = work(Load("", "", np.ones(1), np.ones(1), outputs=outputs), replace(measured(), kv_tokens=KV_TOKENS))
    assert measured().requests_per_s / heavier == pytest.approx(simulated, rel=0.2)
