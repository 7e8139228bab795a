"""A scaling policy in the simulator."""

from dataclasses import replace

import numpy as np

from controlplane.policy.core.observation import PoolPlan
from controlplane.policy.core.spec import Budget, Reactive, ScaleDown, ScalingSpec
from controlplane.policy.simulated import Simulated
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.series import Series
from forecasting.simulate.arrivals import Lengths, from_rates
from forecasting.simulate.replay import Pool, replay
from tests.support.forecasting.simulate import QUICK, WITHIN_A_SECOND

CAPACITY = ReplicaCapacity(4.0, "ledger", slots=8)
LENGTHS = Lengths.around(200, 40, spread=0.3)
POOL = Pool(QUICK, cold_start_s=(120.0,), max_replicas=40)
BURST = from_rates(Series(0, 600, np.array([4.0, 24.0, 4.0, 4.0, 4.0])), LENGTHS, seed=1)


def simulated(capacity: ReplicaCapacity = CAPACITY, **spec: object) -> Simulated:
    quick = ScaleDown(stabilisation_s=60, cooldown_s=0, max_step=10)
    return Simulated(ScalingSpec(**({"max": 40, "pool": "chat", "scale_down": quick} | spec)), capacity, 120.0)  # type: ignore[arg-type]


def test_a_burst_scales_out_and_back() -> None:
    """Use of KV cache is not simulated, and holds nothing."""
    outcome = replay(BURST, POOL, simulated(reactive=Reactive(kv_use=0.5)), WITHIN_A_SECOND)
    wanted = outcome.steps.wanted
    assert wanted[:9].max() <= 3
    assert 7 <= wanted[18] <= 11
    assert wanted[-1] <= 3


def test_a_replay_repeats_itself() -> None:
    policy = simulated()
    first, second = (replay(BURST, POOL, policy, WITHIN_A_SECOND) for _ in range(2))
    assert (first.steps.wanted == second.steps.wanted).all()


def test_the_plan_is_followed_before_the_load_comes() -> None:
    policy = simulated()
    policy.plan = lambda now_ms: PoolPlan(
        "chat", 0, now_ms, 300_000, 300_000, (8, 8), (8, 8), (8, 8), "profile_day", 0.4, 0.9
    )
    outcome = replay(BURST, POOL, policy, WITHIN_A_SECOND)
    assert outcome.steps.wanted[0] == 8


def test_a_budget_of_hours_ends_growth() -> None:
    least = replay(BURST, POOL, simulated(budget=Budget(gpu_hours_per_day=0.2)), WITHIN_A_SECOND)
    assert least.steps.wanted[-1] == 1
    assert least.gpu_hours < replay(BURST, POOL, simulated(), WITHIN_A_SECOND).gpu_hours


def test_a_capacity_that_is_a_lower_bound_adds_as_few_replicas_as_the_controller_would() -> None:
    """They are filled to a little more than one is known to carry, where those of a known capacity keep room."""
    known, at_least = (
        replay(BURST, POOL, simulated(replace(CAPACITY, lower_bound=bound)), WITHIN_A_SECOND) for bound in (False, True)
    )
    assert at_least.steps.wanted.max() < known.steps.wanted.max()
