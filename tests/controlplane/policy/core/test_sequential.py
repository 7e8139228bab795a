"""Measured: simulated pairs of pools hold the error rates that the test states."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.policy.core.observation import Arm, Stratum
from controlplane.policy.core.sequential import (
    EARLY,
    CanaryTest,
    at_least,
    at_most,
    design_effect,
    first_share,
    look,
    looks_at,
    requests_needed,
)
from tests.support.canary_pairs import Pair, arm, judged
from tests.support.soak import sized

PAIRS = sized(120, soak=1_000)
SPREAD = 0.5
"""Standard deviation of the logarithm of a request's latency."""
FAILING = 0.005
WEIGHTS = (0.1, 0.3, 0.5)


def large_enough(alpha: float = 0.05, beta: float = 0.05) -> CanaryTest:
    """As many requests as the baseline's spread needs."""
    rng = np.random.default_rng(0)
    latency, failed = rng.lognormal(0, SPREAD, 100_000), rng.random(100_000) < FAILING
    test = CanaryTest(max_requests=1, alpha=alpha, beta=beta)
    needed = requests_needed(test, arm(latency, failed, float(np.quantile(latency, 0.95)), test), 0.3)
    assert needed is not None
    return CanaryTest(max_requests=needed, alpha=alpha, beta=beta)


def verdicts(test: CanaryTest, pair: Pair, seed: int) -> list[tuple[str, int]]:
    return [judged(test, pair, WEIGHTS, np.random.default_rng((seed, index))) for index in range(PAIRS)]


def test_a_candidate_that_is_20_percent_slower_at_p95_is_rolled_back_within_the_stated_requests() -> None:
    test = large_enough()
    outcomes = verdicts(test, Pair(slower=1.2, spread=SPREAD), seed=1)
    assert all(requests <= test.max_requests for _, requests in outcomes)
    assert sum(verdict == "equal" for verdict, _ in outcomes) <= test.beta * PAIRS
    assert np.median([requests for _, requests in outcomes]) < test.max_requests / 4


def test_an_equal_candidate_is_promoted() -> None:
    test = large_enough()
    outcomes = verdicts(test, Pair(spread=SPREAD), seed=2)
    assert sum(verdict != "equal" for verdict, _ in outcomes) <= test.alpha * PAIRS


def test_a_candidate_that_fails_more_often_by_the_tolerance_is_rolled_back() -> None:
    test = large_enough()
    outcomes = verdicts(test, Pair(spread=SPREAD, failing=FAILING + 0.01), seed=3)
    assert sum(verdict == "equal" for verdict, _ in outcomes) <= test.beta * PAIRS


@pytest.mark.parametrize("percent", [1, 5, 50])
def test_a_candidate_that_fails_every_request_is_rolled_back_within_ten_of_them(percent: int) -> None:
    test = CanaryTest(max_requests=20_000)
    done: list[int] = []
    for requests in range(11):
        others = requests * (100 - percent) // percent
        strata = (Stratum(candidate=Arm(requests, requests), baseline=Arm(others, others // 200, others)),)
        seen = look(test, strata, done)
        if seen and seen.verdict != "continue":
            break
        done += [seen.requests] if seen else []
    assert seen is not None
    assert seen.verdict == "worse"
    assert seen.reason.startswith("it fails more often than the baseline")


def test_an_equal_candidate_is_seldom_rolled_back_by_its_first_requests() -> None:
    """Each look of any that the test may have, so many that the chance is of the looks and not of the draw."""
    test = CanaryTest(max_requests=20_000)
    rng, trials = np.random.default_rng(6), sized(500, soak=2_000)
    early = [at for at in looks_at(test) if at < first_share(test)]
    for failing in (FAILING, 0.05, 0.5):
        ours, theirs = (np.cumsum(rng.random((trials, early[-1])) < failing, axis=1) for _ in range(2))
        ended = 0
        for candidate, baseline in zip(ours, theirs, strict=True):
            done: list[int] = []
            for at in early:
                failed, others = int(candidate[at - 1]), int(baseline[at - 1])
                seen = look(test, (Stratum(Arm(at, failed, at - failed), Arm(at, others, at - others)),), done)
                assert seen is not None
                if seen.verdict == "worse":
                    ended += 1
                    break
                done.append(at)
        assert ended <= EARLY * test.alpha * len(ours)


def test_looks_that_are_passed_over_spend_their_share_at_the_next() -> None:
    test = CanaryTest(max_requests=20_000)
    sound = (Stratum(candidate=Arm(12, 0, 12), baseline=Arm(100, 1, 99)),)
    at_once, second = look(test, sound, ()), look(test, sound, (5,))
    assert at_once is not None
    assert second is not None
    assert at_once.alpha == pytest.approx(second.alpha * 3)
    assert look(test, sound, (10,)) is None


def test_bursts_in_which_requests_are_slow_together_do_not_look_like_a_slower_candidate() -> None:
    test = CanaryTest(max_requests=3_000)
    outcomes = [
        judged(test, Pair(spread=SPREAD, bursts=0.1), (0.3,), np.random.default_rng((4, index)))
        for index in range(PAIRS // 2)
    ]
    assert sum(verdict == "worse" for verdict, _ in outcomes) <= test.alpha * PAIRS / 2


@given(st.integers(1, 40), st.integers(1, 60), st.data())
def test_the_chance_of_exceedances_is_that_of_drawing_without_replacement(n: int, m: int, data: st.DataObject) -> None:
    """At least x of n exceed the threshold that k of m exceed: of the x + k largest of all, x or more are of the n."""
    k = data.draw(st.integers(0, m - 1))
    x = data.draw(st.integers(0, n))
    drawn = x + k
    exact = sum(comb(n, i) * comb(m, drawn - i) for i in range(x, min(n, drawn) + 1)) / comb(n + m, drawn)
    assert at_least(x, n, k + 1, m - k) == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert at_most(x - 1, n, k + 1, m - k) + at_least(x, n, k + 1, m - k) == pytest.approx(1)


def test_between_two_looks_nothing_is_judged() -> None:
    test = CanaryTest(max_requests=1_000)
    worse = (Stratum(candidate=Arm(60, 0, 60, 60, 60), baseline=Arm(940, 0, 940, 47, 20)),)
    first = look(test, worse, ())
    assert first is not None
    assert look(test, worse, (first.requests,)) is None


def test_an_equal_candidate_is_said_with_the_larger_chance_of_being_wrong() -> None:
    seen = look(
        CanaryTest(max_requests=600),
        (Stratum(candidate=Arm(600, 0, 600, 30, 0), baseline=Arm(600, 3, 597, 30, 0)),),
        (),
    )
    assert seen is not None and seen.verdict == "equal"
    assert seen.chances.slower < 1e-6 < 1e-4 < seen.chances.failing_more
    assert f"the chance of these counts would be {seen.chances.failing_more:.2g} otherwise" in seen.reason


def test_a_pool_without_requests_shows_nothing() -> None:
    test = CanaryTest(max_requests=100)
    seen = look(test, (Stratum(candidate=Arm(100, 0, 100, 0, 0), baseline=Arm()),), ())
    assert seen is not None
    assert seen.verdict == "undecided"
    assert requests_needed(test, Arm(), 0.1) is None


def test_independent_requests_have_no_design_effect_and_bursts_have_a_large_one() -> None:
    rng = np.random.default_rng(5)
    assert design_effect([(100, int(rng.binomial(100, 0.05))) for _ in range(400)]) < 1.3
    assert design_effect([(100, 50 if minute % 10 == 0 else 0) for minute in range(400)]) > 20
    assert design_effect([]) == 1.0
    # A share of 0.2, so that 16 are expected of the squares together, which are 10² + 10².
    assert design_effect([(100, 10), (100, 30)]) == pytest.approx(200 / 16)


@pytest.mark.parametrize(
    ("slow", "failed", "weight", "effect", "needed"),
    [(100, 0, 0.5, 1.0, 2_250), (100, 0, 0.5, 3.0, 6_749), (100, 0, 0.2, 1.0, 1_406), (0, 200, 0.5, 1.0, None)],
)
def test_the_requests_that_are_needed_follow_from_the_baselines_spread(
    slow: int, failed: int, weight: float, effect: float, needed: int | None
) -> None:
    """The normal approximation of a test that tells a share from one that is refused: exact, so that no change of it goes unseen."""
    baseline = Arm(requests=2_000, answered=2_000 - failed, failed=failed, slow=slow, too_slow=slow // 2)
    assert requests_needed(CanaryTest(max_requests=1), baseline, weight, effect) == needed
    assert requests_needed(CanaryTest(max_requests=1), Arm(requests=5, failed=5), weight) is None
