"""The highest rate that keeps an objective, on simulated servers whose limit is known."""

import heapq
import itertools
import random
from collections.abc import Sequence

import pytest

from inference.loadtest.core.objective import Objective, parse
from inference.loadtest.core.samples import CUT_SHORT, Sample
from inference.loadtest.core.schedule import POISSON, Segment, arrivals_s
from inference.loadtest.core.search import (
    MAX_STEP_S,
    Highest,
    Step,
    decide,
    highest,
    is_quick,
    judge,
    least_s,
    next_rate,
    outcomes,
)

SLOTS, SERVICE_S = 4, 0.1
P90 = parse("p90 ttft <= 200ms")


def queue(rate: float, seconds: float, seed: int) -> list[Sample]:
    """A server of SLOTS places, where each request takes SERVICE_S."""
    free = [0.0] * SLOTS
    samples = []
    for number, due_s in enumerate(arrivals_s([Segment(rate, rate, seconds)], POISSON, seed)):
        begin_s = max(due_s, heapq.heappop(free))
        heapq.heappush(free, begin_s + SERVICE_S)
        end_s = begin_s + SERVICE_S
        samples.append(Sample(number, due_s, 0, 0, due_s, end_s, end_s, end_s))
    return samples


def share_good(rate: float) -> float:
    samples = queue(rate, 20_000 / rate, 99)
    return sum(P90.good(sample) is True for sample in samples) / len(samples)


def search(objective: Objective, seed: int) -> Highest:
    """As the command does it, looking every 2 s of simulated time."""
    steps: list[Step] = []
    seeds = itertools.count(seed * 1000)
    while (rate := next_rate(steps, 1.0)) is not None:
        quick = is_quick(steps, rate)
        samples = [sample for sample in queue(rate, MAX_STEP_S, next(seeds)) if sample.due_s > 1]
        for seconds in range(2, int(MAX_STEP_S) + 1, 2):
            seen = [sample for sample in samples if sample.ended_s <= seconds]
            decision, judged, bad = judge(seen, [objective], seconds, quick=quick, at_end=seconds == MAX_STEP_S)
            if decision == "lost" or (decision == "kept" and (quick or seconds >= least_s([objective]))):
                break
        steps.append(Step(rate, judged, bad, decision == "kept", quick, seconds))
        assert len(steps) < 60
    return highest(steps, complete=True)


def test_the_limit_of_a_queue_is_inside_the_interval_and_repeats_agree() -> None:
    rates = list[float]()
    for seed in range(6):
        result = search(P90, seed)
        assert result.confirmed and result.low == result.requests_per_s and result.high <= result.low * 1.0301
        assert share_good(result.low / 1.05) > P90.target > share_good(result.high * 1.05)
        rates.append(float(result.low))
    assert max(rates) / min(rates) <= 1.1


def test_a_rate_at_which_the_queue_grows_is_not_kept_though_nobody_waits_too_long_yet() -> None:
    """The server takes 40 a second. Of 42 a second it takes 20 s until somebody has waited for a second."""
    result = search(parse("p90 ttft <= 1s"), 1)
    assert result.confirmed and 36 < result.low <= SLOTS / SERVICE_S


@pytest.mark.parametrize(("share", "decision"), [(0.0, "kept"), (0.02, "kept"), (0.1, "lost"), (0.5, "lost")])
def test_a_step_is_decided_by_few_requests_where_the_answer_is_clear(share: float, decision: str) -> None:
    chance = random.Random(3)
    good = [chance.random() >= share for _ in range(500)]
    assert decide(good, 0.95, quick=False, at_end=True)[0] == decision
    assert decide(good[:250], 0.95, quick=False, at_end=False)[0] == decision


def test_bad_requests_that_come_together_say_less_than_as_many_that_do_not() -> None:
    """They share one moment of the queue."""
    apart = [number % 8 != 0 for number in range(160)]
    together = sorted(apart)
    assert decide(apart, 0.95, quick=False, at_end=False)[0] == "lost"
    assert decide(together, 0.95, quick=False, at_end=False)[0] == "open"


def test_requests_are_judged_in_the_order_in_which_they_were_due() -> None:
    """Else those that are answered soon would decide before the slow ones."""
    quick = Sample(0, 0.0, sent_s=0.0, first_s=0.1, ended_s=0.1)
    waiting = Sample(1, 0.1, sent_s=0.1)
    failed = Sample(2, 0.2, sent_s=0.2, ended_s=0.3, failure="http_500")
    assert outcomes([quick, waiting, failed], P90, now_s=0.25) == [True]
    assert outcomes([quick, waiting, failed], P90, now_s=0.31) == [True, False, False]
    assert outcomes([Sample(3, 0.0, ended_s=None, failure=CUT_SHORT)], P90, now_s=9.0) == []


def steps(*told: tuple[float, str]) -> list[Step]:
    return [Step(rate, 100, 0, kind in "kq", kind == "q", 1.0) for rate, kinds in told for kind in kinds]


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ([], 4.0), ([(4, "q")], 8.0), ([(4, "l")], 2.0), ([(4, "q"), (8, "l")], 4 * 2**0.5), ([(4, "kl")], 4.0),
        ([(4.0, "k"), (4.1, "l")], 4.0), ([(4.0, "kk"), (4.1, "l")], 4.1), ([(4.0, "kk"), (4.1, "ll")], None),
        ([(4.0, "qk"), (4.1, "ll")], 4.0), ([(4.0, "kkll"), (4.1, "ll")], 4.0), ([(4.0, "klklklk"), (4.1, "ll")], 2.0),
        ([(4.0 / 2**n, "l") for n in range(7)], None),
    ],
)  # fmt: skip
def test_the_next_rate_narrows_the_bracket_and_then_confirms_both_ends(
    given: Sequence[tuple[float, str]], rate: float | None
) -> None:
    assert next_rate(steps(*given), 4.0) == (None if rate is None else pytest.approx(rate))


def test_what_was_not_shown_is_said() -> None:
    assert highest(steps((4, "ll")), complete=True).reason == "No rate kept the objectives."
    assert "No rate was seen that loses" in highest(steps((4, "qkk")), complete=False).reason
    early = highest(steps((4, "kk"), (5, "ll")), complete=False)
    assert not early.confirmed and (early.low, early.high) == (4, 5) and "not confirmed" in early.reason
