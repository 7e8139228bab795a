import numpy as np
import pytest

from forecasting.series import Series
from forecasting.simulate.arrivals import Lengths, from_rates
from forecasting.simulate.outcome import Objective, ObjectiveError, flaps_of
from forecasting.simulate.policy import Fixed, Observation
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, ReplayError, replay
from tests.bench.references.hpa import Hpa
from tests.support.forecasting.simulate import QUICK, WITHIN_A_SECOND, Schedule, requests
from tests.support.forecasting.simulated_capacity import capacity_rps

LENGTHS = Lengths.around(100, 20)
HOUR = from_rates(Series(0, 600, np.array([5.0, 20, 40, 5, 0, 10])), LENGTHS, seed=4)


def test_equal_input_gives_equal_output() -> None:
    pool = Pool(QUICK, cold_start_s=(30, 90))
    first, second = (replay(HOUR, pool, Hpa(4.0), WITHIN_A_SECOND) for _ in range(2))
    for name in first.__slots__:
        if name != "steps":
            assert getattr(first, name) == getattr(second, name)
    assert (first.steps.ready == second.steps.ready).all()


def test_the_steps_add_up_to_the_whole() -> None:
    outcome = replay(HOUR, Pool(QUICK, cold_start_s=(45,)), Hpa(4.0), WITHIN_A_SECOND, duration_s=3600)
    steps = outcome.steps
    assert steps.step_s == 60
    assert len(steps.arrived) == len(steps.waiting) == 60
    assert steps.arrived.sum() == outcome.requests == len(HOUR)
    assert steps.good.sum() / len(HOUR) == pytest.approx(outcome.attainment)
    assert outcome.answered == len(HOUR)
    assert outcome.gpu_hours == outcome.replica_hours * QUICK.gpus
    assert steps.arrived[40:50].sum() == 0


def test_a_cold_start_costs_and_serves_nothing() -> None:
    arrivals = requests(*[(float(at), 0, 1) for at in range(600)])
    profile = ReplicaProfile(0.1, 0, 0, 0, 1, gpus=4)
    pool = Pool(profile, cold_start_s=(120,), start_replicas=1)
    outcome = replay(arrivals, pool, Fixed(2, tick_s=60), WITHIN_A_SECOND, duration_s=600)
    assert list(outcome.steps.ready) == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert outcome.replica_hours == pytest.approx((600 + 540) / 3600)
    assert outcome.gpu_hours == pytest.approx(4 * outcome.replica_hours)
    assert outcome.utilisation == pytest.approx(60 / (600 + 420), rel=0.01)


def test_requests_that_are_not_answered_are_bad_and_have_no_latency() -> None:
    slow = ReplicaProfile(10.0, 0, 0, 0, 1)
    outcome = replay(
        requests(*[(float(at), 0, 1) for at in range(20)]),
        Pool(slow, max_replicas=1),
        Fixed(1),
        Objective(0.9, e2e_s=30),
    )
    assert outcome.requests == 20
    assert outcome.attainment < 0.3


def test_an_objective_counts_every_threshold_that_it_has() -> None:
    arrivals = requests((0.0, 0, 1), (100.0, 0, 101))
    profile = ReplicaProfile(0.1, 0, 0.05, 0, 4)

    def attainment(**thresholds: float) -> float:
        return replay(arrivals, Pool(profile), Fixed(1), Objective(0.5, **thresholds)).attainment

    assert attainment(ttft_s=0.2) == 1
    assert attainment(ttft_s=0.05) == 0
    assert attainment(ttft_s=0.2, e2e_s=1) == 0.5
    assert attainment(itl_s=0.051) == 1
    assert attainment(itl_s=0.049) == 0.5
    assert attainment() == 1


def test_a_change_back_soon_after_is_a_flap() -> None:
    assert flaps_of(np.array([2, 3, 3, 2, 2, 2, 4, 5]), 60) == (4, 2)
    assert flaps_of(np.array([2, 3] + [3] * 10 + [2]), 60) == (2, 0)
    assert flaps_of(np.array([2]), 60) == (0, 0)


def test_progress_grows_to_the_end() -> None:
    shares: list[float] = []
    replay(HOUR, Pool(QUICK), Fixed(3, tick_s=15), WITHIN_A_SECOND, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1, abs=0.02)
    assert len(shares) <= 125


def test_bounds_hold_for_every_policy() -> None:
    pool = Pool(QUICK, min_replicas=2, max_replicas=3)
    outcome = replay(HOUR, pool, Schedule([0, 50, -4], 600), WITHIN_A_SECOND)
    assert set(outcome.steps.wanted) == {2, 3}


def test_what_a_policy_sees_is_what_happened() -> None:
    observed: list[Observation] = []

    class Watching:
        name, tick_s = "watching", 60.0

        def begin(self, arrivals: object, replicas: int) -> None:
            pass

        def decide(self, seen: Observation) -> int:
            observed.append(seen)
            return 6

    replay(HOUR, Pool(QUICK, start_replicas=6), Watching(), WITHIN_A_SECOND, duration_s=3600)
    assert sum(seen.arrived for seen in observed) == len(HOUR)
    assert sum(seen.input_tokens for seen in observed) == HOUR.input_tokens.sum()
    busy = observed[25]
    assert busy.rate_rps == pytest.approx(40, rel=0.15)
    assert 0 < busy.ttft_s < 10
    assert QUICK.step_s < busy.itl_s < 0.2
    assert busy.in_flight == busy.running + busy.waiting > 0
    assert (busy.ready, busy.starting, busy.wanted) == (6, 0, 6)


def test_no_requests_are_no_error() -> None:
    outcome = replay(requests(), Pool(QUICK), Hpa(4.0), WITHIN_A_SECOND)
    assert outcome.requests == 0
    assert np.isnan(outcome.attainment)
    assert not outcome.kept


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({"cold_start_s": ()}, "at least one measured cold start"),
        ({"cold_start_s": (-1.0,)}, "at least one measured cold start"),
        ({"min_replicas": 5, "max_replicas": 4}, "a maximum that is not below it"),
        ({"max_in_flight": -1}, "0 for no limit"),
    ],
)
def test_a_pool_that_cannot_be_says_which_field_and_what_to_give(fields: dict[str, object], remedy: str) -> None:
    with pytest.raises(ReplayError, match=remedy):
        Pool(QUICK, **fields)  # type: ignore[arg-type]


def test_a_time_that_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(ReplayError, match="duration_s is nan"):
        replay(HOUR, Pool(QUICK), Fixed(1), WITHIN_A_SECOND, duration_s=float("nan"))
    with pytest.raises(ReplayError, match="tick_s of fixed 1 is 0"):
        replay(HOUR, Pool(QUICK), Fixed(1, tick_s=0), WITHIN_A_SECOND)
    with pytest.raises(ObjectiveError, match="between 0 and 1"):
        Objective(1.5)
    with pytest.raises(ObjectiveError, match="ttft_s is 0"):
        Objective(0.9, ttft_s=0)


def test_capacity_is_the_highest_rate_that_keeps_the_objective() -> None:
    capacity = capacity_rps(QUICK, LENGTHS, Objective(0.95, ttft_s=0.2), replicas=2)
    pool = Pool(QUICK, min_replicas=2, max_replicas=2)

    def kept(share: float) -> bool:
        arrivals = from_rates(Series(0, 60, np.full(200, 2 * capacity * share)), LENGTHS, seed=9)
        return replay(arrivals, pool, Fixed(2), Objective(0.95, ttft_s=0.2)).kept

    assert kept(0.9)
    assert not kept(1.1)
    assert capacity_rps(QUICK, LENGTHS, Objective(0.95, ttft_s=0.001)) == 0
