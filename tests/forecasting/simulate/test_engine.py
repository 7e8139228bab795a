"""One replica against the same rules applied step by step, and what must hold in any pool."""

import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.engine import advance
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.scale import scale
from forecasting.simulate.state import ABSENT, ANSWERED, State, new_state
from tests.support.forecasting.simulate import QUICK, requests
from tests.support.soak import sized

# Seconds that no sum of passes makes, no two alike: who comes first would else be a matter of rounding.
TIMES = st.integers(0, 2000).map(lambda step: step / 997 + 0.000123)
ROWS = st.lists(
    st.tuples(TIMES, st.integers(0, 300), st.integers(0, 30)), min_size=1, max_size=40, unique_by=lambda row: row[0]
)
PROFILES = st.builds(
    ReplicaProfile,
    prefill_s=st.sampled_from([0.0, 0.013]),
    prefill_token_s=st.sampled_from([0.0, 0.00011]),
    step_s=st.sampled_from([0.0071, 0.0217]),
    step_sequence_s=st.sampled_from([0.0, 0.0013]),
    max_sequences=st.integers(1, 5),
    kv_tokens=st.sampled_from([0, 0, 60, 150, 400]),
    step_token_s=st.sampled_from([0.0, 0.000017]),
)


def started(arrivals: Arrivals, profile: ReplicaProfile, replicas: int = 1, **limits: float) -> State:
    state = new_state(arrivals, profile, max_replicas=10, cold_start_s=np.zeros(1), **limits)  # type: ignore[arg-type]
    scale(state, replicas)
    advance(state, 0.0)
    return state


def step_by_step(
    arrivals: Arrivals, profile: ReplicaProfile, max_in_flight: int
) -> tuple[list[float], list[float], list[float]]:
    """Wait, TTFT and E2E of each request in a replica that takes one step after the other."""
    count = len(arrivals)
    wait, ttft, e2e = [float("nan")] * count, [0.0] * count, [0.0] * count
    came = [(float(at), i) for i, at in enumerate(arrivals.arrival_s)]
    pool: list[int] = []
    queue: list[int] = []
    running: dict[int, int] = {}
    contexts: dict[int, int] = {}
    given = [0] * count
    now = 0.0

    def hand_over(reading: int = 0) -> None:
        while pool and (not max_in_flight or len(queue) + len(running) + reading < max_in_flight):
            queue.append(pool.pop(0))

    def arrive(reading: int = 0) -> None:
        while came and came[0][0] <= now:
            pool.append(came.pop(0)[1])
            if len(pool) == 1:
                hand_over(reading)

    def read_prompts() -> list[int]:
        read: list[int] = []
        while queue and len(running) + len(read) < profile.max_sequences:
            context = int(arrivals.input_tokens[queue[0]]) + given[queue[0]]
            if profile.kv_tokens and contexts and sum(contexts.values()) + context + 1 > profile.kv_tokens:
                break
            contexts[queue[0]] = context + 1
            read.append(queue.pop(0))
        return read

    def preempted() -> bool:
        before = len(running)
        while profile.kv_tokens and len(running) > 1 and sum(contexts.values()) + len(running) > profile.kv_tokens:
            last = max(running)
            given[last] = int(arrivals.output_tokens[last]) - running.pop(last)
            del contexts[last]
            queue.insert(0, last)
        return len(running) < before

    while came or pool or queue or running:
        read = [] if preempted() else read_prompts()
        if not read and not running:
            hand_over()
            read = read_prompts()
        hand_over(len(read))  # after the pass has begun
        if read:
            for i in read:
                wait[i] = wait[i] if given[i] else now - arrivals.arrival_s[i]
            now += profile.prefill_s + profile.prefill_token_s * sum(contexts[i] - 1 for i in read)
            arrive(len(read))
            for i in read:
                ttft[i] = ttft[i] if given[i] else now - arrivals.arrival_s[i]
                e2e[i] = now - arrivals.arrival_s[i]
                if arrivals.output_tokens[i] - given[i] > 1:
                    running[i] = int(arrivals.output_tokens[i]) - given[i] - 1
                else:
                    del contexts[i]
        elif running:
            now += profile.step_s + profile.step_sequence_s * len(running)
            now += profile.step_token_s * sum(contexts.values())
            arrive()
            for i in list(running):
                running[i] -= 1
                contexts[i] += 1
                if not running[i]:
                    e2e[i] = now - arrivals.arrival_s[i]
                    del running[i], contexts[i]
        else:
            now = came[0][0]
            arrive()
    return wait, ttft, e2e


@settings(max_examples=sized(45, soak=600), deadline=None)
@given(ROWS, PROFILES, st.integers(0, 6))
def test_a_replica_does_what_it_would_step_by_step(
    rows: list[tuple[float, int, int]], profile: ReplicaProfile, max_in_flight: int
) -> None:
    rows.sort()
    arrivals = requests(*rows)
    state = started(arrivals, profile, max_in_flight=max_in_flight)
    advance(state, 1e6)
    assert (state.requests["outcome"] == ANSWERED).all()
    expected_s = step_by_step(arrivals, profile, max_in_flight)
    for name, expected in zip(("wait_s", "ttft_s", "e2e_s"), expected_s, strict=True):
        np.testing.assert_allclose(state.requests[name], expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=sized(30, soak=400), deadline=None)
@given(
    ROWS,
    st.integers(1, 4),
    st.sampled_from([0, 1, 3]),
    st.lists(st.tuples(st.floats(0.01, 0.5), st.integers(0, 6)), max_size=12),
)
def test_no_request_is_lost_or_counted_twice_however_the_pool_is_scaled(
    rows: list[tuple[float, int, int]], replicas: int, max_in_flight: int, scaled: list[tuple[float, int]]
) -> None:
    rows.sort()
    state = started(requests(*rows), QUICK, replicas, max_in_flight=max_in_flight)
    state.cold_start_s[0] = 0.2
    now_s = 0.0
    for after_s, wanted in scaled:
        now_s += after_s
        advance(state, now_s)
        assert scale(state, wanted) == wanted
    scale(state, 2)
    advance(state, 1e6)
    pool, outcome = state.pool[0], state.requests["outcome"]
    assert pool["arrived"] == len(rows)
    assert pool["answered"] == len(rows)
    assert (outcome != 0).all()
    assert pool["running"] == pool["waiting"] == pool["queued"] == pool["draining"] == 0
    assert pool["ready"] == 2
    assert state.replicas["in_flight"].sum() == 0
    answered = state.requests[outcome == ANSWERED]
    assert (answered["wait_s"] <= answered["ttft_s"]).all()
    assert (answered["ttft_s"] <= answered["e2e_s"]).all()


def test_the_heap_of_passes_gives_them_in_order() -> None:
    rows = [(0.001 * i, 10 + 7 * i % 90, 1 + 5 * i % 17) for i in range(400)]
    state = started(requests(*rows), QUICK, 9)
    ends = []
    while state.pool[0]["due"]:
        heap = state.due[: state.pool[0]["due"]]
        ends.append(float(state.replicas[heap[0]]["ends_s"]))
        assert ends[-1] == min(state.replicas[heap]["ends_s"])
        advance(state, ends[-1])
    assert all(earlier <= later for earlier, later in pairwise(ends))
    assert heapq.nsmallest(1, ends) == ends[:1]
    assert (state.requests["outcome"] == ANSWERED).all()


def test_a_request_goes_where_the_fewest_are_in_flight() -> None:
    state = started(requests((0.0, 0, 500), (0.1, 0, 500), (0.2, 0, 500), (0.3, 0, 500)), QUICK, 2)
    advance(state, 0.4)
    assert list(state.replicas["in_flight"][:2]) == [2, 2]


def test_a_draining_replica_ends_its_requests_and_gets_no_more() -> None:
    state = started(requests((0.0, 0, 100), (0.1, 0, 100), (1.0, 0, 10)), QUICK, 2)
    advance(state, 0.5)
    scale(state, 1)
    advance(state, 1.05)
    assert state.pool[0]["draining"] == 1
    assert sorted(state.replicas["in_flight"][:2]) == [1, 2]
    advance(state, 100.0)
    assert (state.requests["outcome"] == ANSWERED).all()
    assert (state.replicas["status"] == ABSENT).sum() == len(state.replicas) - 1


@pytest.mark.parametrize("wanted", [0, 1, 5])
def test_replicas_that_are_not_ready_go_first(wanted: int) -> None:
    state = started(requests((0.0, 0, 1)), QUICK, 2)
    state.cold_start_s[0] = 60
    advance(state, 1.0)
    scale(state, 6)
    scale(state, wanted)
    assert (state.pool[0]["ready"], state.pool[0]["starting"]) == (min(wanted, 2), max(0, wanted - 2))


def test_requests_wait_for_a_cold_start_in_the_pool() -> None:
    state = started(requests((1.0, 0, 1)), QUICK, 0)
    state.cold_start_s[0] = 60
    advance(state, 2.0)
    scale(state, 1)
    advance(state, 1000.0)
    assert state.requests["wait_s"][0] == pytest.approx(61.0)
