"""The search of a benchmark, against a queue (M/M/c) whose capacity is known in closed form."""

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forecasting.capacity.assumptions import CapacityError
from forecasting.capacity.benchmark import (
    HALVINGS,
    MAX_RPS,
    TOLERANCE,
    BenchmarkStep,
    conclusion,
    is_quick,
    next_rate,
    step_length,
    steps_left,
)
from tests.support.forecasting.closed_forms import erlang_c

MAX_STEPS = 40


def share_within(rate: float, servers: int, service_s: float, threshold_s: float) -> float:
    """P(sojourn <= threshold) of M/M/c (Kleinrock, Queueing Systems I, 3.5): the wait is 0 or exponential, the service exponential."""
    mu, load = 1 / service_s, rate * service_s
    if load >= servers:
        return 0.0
    wait = erlang_c(servers, load)
    drain = servers * mu - rate
    if math.isclose(drain, mu, rel_tol=1e-6):
        drain *= 1 + 1e-5
    alone = 1 - math.exp(-mu * threshold_s)
    waited = 1 - (drain * math.exp(-mu * threshold_s) - mu * math.exp(-drain * threshold_s)) / (drain - mu)
    return (1 - wait) * alone + wait * waited


def capacity(servers: int, service_s: float, threshold_s: float, target: float) -> float:
    low, high = 0.0, servers / service_s
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, servers, service_s, threshold_s) >= target else (low, middle)
    return low


def search(first_rps: float, share_of: "Share", target: float, most_rps: float = MAX_RPS) -> list[BenchmarkStep]:
    steps: list[BenchmarkStep] = []
    while (rate := next_rate(steps, first_rps, most_rps)) is not None:
        assert len(steps) < MAX_STEPS and steps_left(steps) >= 1
        length = step_length(rate, target, 1.0, is_quick(steps, rate))
        good = round(share_of(rate, length.judged) * length.judged)
        steps.append(BenchmarkStep(rate, length.judged, good, good >= target * length.judged, length.quick))
    return steps


class Share:
    """The share of good requests at a rate: as the closed form says, or as so many random requests show it."""

    def __init__(self, servers: int, service_s: float, threshold_s: float, seed: int | None = None) -> None:
        self._queue = (servers, service_s, threshold_s)
        self._random = None if seed is None else random.Random(seed)

    def __call__(self, rate: float, judged: int) -> float:
        share = share_within(rate, *self._queue)
        if self._random is None:
            return share
        return sum(self._random.random() < share for _ in range(judged)) / judged


queues = {
    "servers": st.integers(1, 64),
    "service_s": st.floats(0.02, 5.0),
    "slack": st.floats(4.0, 40.0),
    "target": st.sampled_from([0.8, 0.9, 0.95]),
    "far": st.floats(0.02, 30.0),
}


@given(**queues)
@example(servers=1, service_s=1.0, slack=4.0, target=0.8, far=0.02)
def test_it_converges_to_the_capacity_wherever_it_begins(
    servers: int, service_s: float, slack: float, target: float, far: float
) -> None:
    threshold_s = slack * service_s
    known = capacity(servers, service_s, threshold_s, target)
    steps = search(known * far, Share(servers, service_s, threshold_s), target)
    result = conclusion(steps, target)
    assert result.requests_per_s is not None and not result.lower_bound
    # A share is counted in whole requests, so a step of few of them may err by half of one.
    rounding = 0.5 / min(step.judged for step in steps)
    lower = capacity(servers, service_s, threshold_s, min(0.9999, target + rounding))
    upper = capacity(servers, service_s, threshold_s, target - rounding)
    assert lower / (1 + TOLERANCE) * 0.999 <= result.requests_per_s <= upper * 1.001
    best = [step for step in steps if step.requests_per_s == result.requests_per_s][-1]
    assert best.kept and not best.quick


@given(**queues, seed=st.integers(0, 2**32))
def test_it_ends_in_a_load_that_kept_the_objective_however_chance_falls(
    servers: int, service_s: float, slack: float, target: float, far: float, seed: int
) -> None:
    threshold_s = slack * service_s
    first_rps = capacity(servers, service_s, threshold_s, target) * far
    steps = search(first_rps, Share(servers, service_s, threshold_s, seed), target)
    result = conclusion(steps, target)
    if result.requests_per_s is None:
        assert min(step.requests_per_s for step in steps) <= first_rps / 2 ** (HALVINGS - 1)
        return
    at = [step for step in steps if step.requests_per_s == result.requests_per_s]
    assert at[-1].kept and not at[-1].quick
    lost = [step.requests_per_s for step in steps if not step.kept]
    assert lost and min(lost) <= result.requests_per_s * (1 + TOLERANCE) * (1 + 1e-9)


@given(**queues, faster=st.floats(1.0, 8.0))
def test_a_faster_replica_never_gets_a_lower_capacity(
    servers: int, service_s: float, slack: float, target: float, far: float, faster: float
) -> None:
    threshold_s = slack * service_s
    first_rps = capacity(servers, service_s, threshold_s, target) * far

    def measured_rps(service: float) -> float:
        return conclusion(search(first_rps, Share(servers, service, threshold_s), target), target).requests_per_s or 0.0

    assert measured_rps(service_s / faster) >= measured_rps(service_s) / (1 + TOLERANCE) ** 2


def test_without_a_load_that_loses_it_is_a_lower_bound() -> None:
    steps = search(1.0, lambda rate, judged: 1.0, 0.95, most_rps=10.0)  # type: ignore[arg-type]
    assert [step.requests_per_s for step in steps] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    result = conclusion(steps, 0.95)
    assert (result.requests_per_s, result.lower_bound) == (10.0, True)


def test_an_objective_that_no_load_keeps_says_what_was_seen() -> None:
    steps = search(1.0, lambda rate, judged: 0.5, 0.95)  # type: ignore[arg-type]
    result = conclusion(steps, 0.95)
    assert result.requests_per_s is None
    assert "50.0% of" in result.reason and "95.0% must be" in result.reason


def test_a_quick_look_that_was_lucky_gives_way_to_the_full_step_at_that_load() -> None:
    steps = [
        BenchmarkStep(4.0, 25, 25, True, True),
        BenchmarkStep(4.2, 100, 20, False),
        BenchmarkStep(4.0, 100, 20, False),
    ]
    assert next_rate(steps[:2], 4.0) == 4.0 and not is_quick(steps[:2], 4.0)
    assert next_rate(steps, 4.0) == 2.0


def test_what_the_time_did_not_suffice_for_is_said() -> None:
    steps = [BenchmarkStep(4.0, 25, 25, True, True), BenchmarkStep(8.0, 100, 20, False)]
    early = conclusion(steps, 0.95, complete=False)
    assert (early.requests_per_s, early.lower_bound) == (4.0, True)
    assert "less than 8" in early.reason and "time did not suffice" in early.reason


def test_a_step_is_long_enough_for_its_target_and_for_a_queue_to_grow() -> None:
    assert step_length(2.0, 0.99, 0.3, False).judged == 500
    assert step_length(100.0, 0.95, 4.0, False).judged == 3200
    assert step_length(2.0, 0.99, 0.3, True).judged == 125
    with pytest.raises(CapacityError, match="requests_per_s is 0"):
        step_length(0.0, 0.95, 1.0, False)
