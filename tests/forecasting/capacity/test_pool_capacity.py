"""What pools of other sizes carry, against formulas of queueing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.capacity.pool_capacity import carried_by, carried_rps, replicas_for, replicas_of
from tests.support.capacity import capacity
from tests.support.soak import sized


def waiting_share(servers: int, offered: float) -> float:
    """Erlang's C: the share of requests that wait in M/M/c (Erlang 1917), by the recursion of his B."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


def test_small_pools_carry_less_per_replica_as_halfin_and_whitt_have_it() -> None:
    measured = capacity(3.0, batching_factor=12.0, slots=16, measured_replicas=25)  # 12 of 16 slots: β = 0.25 √400 = 5
    assert carried_rps(25, measured) == pytest.approx(75.0)
    assert carried_rps(4, measured) == pytest.approx((64 - 5 * 8) / 4.0)
    assert carried_rps(40, measured) == pytest.approx(120.0)
    assert carried_rps(1, measured) == 0.0
    without_slots = capacity(3.0, batching_factor=12.0, measured_replicas=25)
    assert carried_rps(4, without_slots) == pytest.approx(12.0)


@pytest.mark.parametrize("replicas", [1, 2, 5, 10])
def test_as_many_requests_wait_in_a_small_pool_as_in_the_measured_one(replicas: int) -> None:
    measured = capacity(14.0, batching_factor=14.0, slots=16, measured_replicas=20)  # each request takes 1 s
    in_measured = waiting_share(320, 280.0)
    in_small = waiting_share(replicas * 16, carried_rps(replicas, measured))
    assert in_small == pytest.approx(in_measured, abs=0.02)


def test_replicas_for_a_load_carry_it_and_one_less_does_not() -> None:
    measured = capacity(3.0, batching_factor=12.0, slots=16, measured_replicas=25)
    loads = np.linspace(0.01, 200, 500)
    replicas, unqueued = replicas_for(loads, measured)
    assert (carried_by(replicas, measured) >= loads * (1 - 1e-6)).all()
    assert (carried_by(replicas - 1, measured) < loads).all()
    assert (unqueued == np.ceil(loads / 3.0 - 1e-9)).all()
    assert math.isclose(carried_rps(0, measured), 0.0)


@settings(max_examples=sized(60, soak=600), deadline=None)
@given(
    st.lists(st.floats(0, 1e300) | st.floats(0, 1e4), min_size=2, max_size=20),
    st.floats(1e-6, 1e6),
    st.integers(1, 50),
    st.booleans(),
)
def test_a_larger_load_never_needs_fewer_replicas(
    loads: list[float], requests_per_s: float, measured_replicas: int, has_slots: bool
) -> None:
    slots = {"batching_factor": 6.0, "slots": 16} if has_slots else {}
    measured = capacity(requests_per_s, measured_replicas=measured_replicas, **slots)
    counts = replicas_for(np.array(sorted(loads)), measured)[0].tolist()
    assert counts == sorted(counts) and counts[0] >= 0
    alone = [replicas_of(load, measured) for load in sorted(loads)]
    assert alone == sorted(alone)
