"""The simulator against queueing theory: utilisation, mean wait and p95 of the wait within 2 %."""

import numpy as np
import pytest

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective, Outcome
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.support.forecasting.closed_forms import (
    erlang_c,
    md1_wait_quantile_s,
    md1_wait_s,
    mmc_wait_quantile_s,
    mmc_wait_s,
)
from tests.support.forecasting.simulate import poisson

REQUESTS = 4_000_000
SERVICE_S = 0.1
AT_A_TIME = ReplicaProfile(prefill_s=0, prefill_token_s=1e-6, step_s=0, step_sequence_s=0, max_sequences=1)


def run(arrivals: Arrivals, pool: Pool) -> Outcome:
    return replay(arrivals, pool, Fixed(pool.min_replicas, tick_s=arrivals.arrival_s[-1]), Objective(0.95, ttft_s=1))


def mean_wait_s(outcome: Outcome) -> float:
    """By Little's law."""
    return float(outcome.steps.waiting[0]) * outcome.steps.step_s / outcome.requests


@pytest.mark.parametrize(("servers", "utilisation"), [(1, 0.7), (4, 0.8), (16, 0.8)])
def test_replicas_behind_a_queue_are_m_m_c(servers: int, utilisation: float) -> None:
    rate_rps = servers * utilisation / SERVICE_S
    service_s = np.random.default_rng(2).exponential(SERVICE_S, REQUESTS)
    pool = Pool(AT_A_TIME, min_replicas=servers, max_replicas=servers, max_in_flight=1)
    outcome = run(poisson(rate_rps, REQUESTS, service_s), pool)
    assert outcome.utilisation == pytest.approx(utilisation, rel=0.02)
    assert mean_wait_s(outcome) == pytest.approx(mmc_wait_s(servers, rate_rps, SERVICE_S), rel=0.02)
    assert outcome.wait.p95_s == pytest.approx(mmc_wait_quantile_s(servers, rate_rps, SERVICE_S, 0.95), rel=0.02)


def test_a_replica_is_m_d_1_where_all_requests_are_alike() -> None:
    rate_rps = 0.8 / SERVICE_S
    outcome = run(
        poisson(rate_rps, REQUESTS, np.full(REQUESTS, SERVICE_S)), Pool(AT_A_TIME, min_replicas=1, max_replicas=1)
    )
    assert outcome.utilisation == pytest.approx(0.8, rel=0.02)
    assert mean_wait_s(outcome) == pytest.approx(md1_wait_s(rate_rps, SERVICE_S), rel=0.02)
    assert outcome.wait.p95_s == pytest.approx(md1_wait_quantile_s(rate_rps, SERVICE_S, 0.95), rel=0.02)


def test_sequences_of_a_batch_are_m_m_c_where_a_step_takes_equally_long_for_any_number() -> None:
    servers, step_s, tokens = 6, 0.001, 500
    rate_rps = servers * 0.8 / (step_s * tokens)
    count = REQUESTS // 4
    rng = np.random.default_rng(3)
    arrivals = Arrivals(
        np.cumsum(rng.exponential(1 / rate_rps, count)),
        np.zeros(count, dtype=np.int32),
        1 + rng.geometric(1 / tokens, count).astype(np.int32),
    )
    profile = ReplicaProfile(prefill_s=0, prefill_token_s=0, step_s=step_s, step_sequence_s=0, max_sequences=servers)
    outcome = run(arrivals, Pool(profile, min_replicas=1, max_replicas=1))
    assert outcome.utilisation == pytest.approx(0.8, rel=0.02)
    # A prompt is read when the step under way ends: half a step later than in theory, 0.5 ms of the 216 ms.
    assert mean_wait_s(outcome) == pytest.approx(mmc_wait_s(servers, rate_rps, step_s * tokens), rel=0.02)
    assert outcome.wait.p95_s == pytest.approx(mmc_wait_quantile_s(servers, rate_rps, step_s * tokens, 0.95), rel=0.02)


def test_erlang_c_is_that_of_the_tables() -> None:
    assert erlang_c(1, 0.5) == pytest.approx(0.5)
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert erlang_c(10, 8.0) == pytest.approx(0.4092, abs=1e-4)
