import numpy as np

from forecasting.series import Series
from forecasting.simulate.arrivals import Lengths, from_rates
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.replay import Pool, replay
from tests.bench.references.hpa import Hpa
from tests.bench.references.oracle import Oracle, least_oracle
from tests.support.forecasting.simulate import QUICK
from tests.support.forecasting.simulated_capacity import capacity_rps

LENGTHS = Lengths.around(100, 20)
OBJECTIVE = Objective(0.95, ttft_s=0.5)
COLD_START_S = 300.0


def oracle() -> Oracle:
    busy_s = QUICK.busy_s(LENGTHS.input_tokens.astype(float), LENGTHS.output_tokens.astype(float))
    load = capacity_rps(QUICK, LENGTHS, OBJECTIVE, replicas=3) * float(busy_s.mean())
    return Oracle(QUICK, load, COLD_START_S)


def test_it_is_ready_before_a_surge_that_no_reaction_is_in_time_for() -> None:
    rates = np.full(60, 10.0)
    rates[30:] = 80.0
    arrivals = from_rates(Series(0, 60, rates), LENGTHS)
    pool = Pool(QUICK, cold_start_s=(COLD_START_S,), start_replicas=2)
    knowing = replay(arrivals, pool, oracle(), OBJECTIVE)
    reacting = replay(arrivals, pool, Hpa(4.0), OBJECTIVE)
    most = replay(arrivals, pool, Fixed(knowing.most_replicas), OBJECTIVE)
    assert knowing.kept
    assert not reacting.kept
    assert knowing.replica_hours < 0.75 * most.replica_hours
    surge = 30
    assert knowing.steps.ready[surge - 1] == knowing.steps.ready[-1] > knowing.steps.ready[10]


def test_the_least_oracle_keeps_the_objective_at_the_lowest_cost() -> None:
    arrivals = from_rates(Series(0, 300, np.array([20.0, 60, 90, 40, 10, 50])), LENGTHS)
    pool = Pool(QUICK, cold_start_s=(60.0,), start_replicas=2)
    least = least_oracle(arrivals, pool, OBJECTIVE)
    outcome = replay(arrivals, pool, least, OBJECTIVE)
    thrifty = replay(arrivals, pool, Oracle(QUICK, least.load * 1.15, 60.0), OBJECTIVE)
    assert outcome.kept
    assert not thrifty.kept
    assert (
        outcome.replica_hours <= replay(arrivals, pool, Oracle(QUICK, least.load * 0.7, 60.0), OBJECTIVE).replica_hours
    )
