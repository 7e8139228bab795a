"""Canaries on made-up counts: the real test judges them, and time follows from the rate."""

import numpy as np
import pytest

from controlplane.policy.core.spec import CanarySpec
from controlplane.policy.preview.core.trials import Shares, Trial, steps_of, thresholds, trial

SPEC = CanarySpec(model="chat", baseline="eu", candidate="fp8", max_requests=4_000)
EQUAL = Shares(failed=0.005, slow=0.05, too_slow=0.02)
SLOWER = Shares(failed=0.005, slow=0.12, too_slow=0.05)


def trials(candidate: Shares, count: int = 40, effect: float = 1.0) -> list[Trial]:
    random = np.random.default_rng(7)
    return [trial(SPEC, 2.0, EQUAL, candidate, (effect, effect), random) for _ in range(count)]


def share(results: list[Trial], outcome: str) -> float:
    return sum(each.outcome == outcome for each in results) / len(results)


def test_an_equal_candidate_is_promoted_and_a_slower_one_rolled_back_sooner() -> None:
    equal, slower = trials(EQUAL), trials(SLOWER)
    assert share(equal, "promoted") >= 0.85
    assert share(slower, "rolled_back") >= 0.95
    assert np.median([each.requests for each in slower]) < np.median([each.requests for each in equal])


def test_time_follows_from_the_rate_and_the_percent_of_each_step() -> None:
    steps = list(steps_of(SPEC, rps=2.0))
    assert [(percent, requests) for percent, requests, _ in steps] == [(5, 1_334), (25, 1_333), (50, 1_333)]
    assert steps[0][2] == pytest.approx(1_334 / (2.0 * 0.05))
    longest = max(trials(EQUAL), key=lambda each: each.seconds)
    assert longest.seconds <= sum(seconds for _, _, seconds in steps) * 1.001


def test_looks_and_ends_of_steps_are_where_something_may_change() -> None:
    early = [5, 10, 20, 40, 80, 160]
    assert thresholds(SPEC) == [*early, 200, 400, 800, 1_334, 1_400, 2_000, 2_667, 3_000, 4_000]


def test_requests_that_are_slow_together_take_longer_to_decide() -> None:
    alone, together = trials(EQUAL), trials(EQUAL, effect=8.0)
    assert share(together, "promoted") < share(alone, "promoted")
