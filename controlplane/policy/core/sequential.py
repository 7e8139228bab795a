"""Judges a canary: a candidate pool beside a baseline pool, by latency and errors of the requests that each of them served.

The test is group-sequential with an error-spending function (Lan and DeMets, "Discrete Sequential Boundaries for Clinical Trials",
Biometrika 70, 1983): it looks at fixed shares of `max_requests` and spends its error rates linearly in them. A look uses only what its own
share adds, so that the sum over all looks holds whatever their correlation is (Bonferroni). Counting is by the requests of the candidate,
so it may be called at any time: between two looks nothing is judged.

Before the first share there are early looks, at failures alone: after 5 requests, and each time that these have doubled. `EARLY` of the
chance to reject an equal candidate is theirs, and each spends half of what is left of it, so that their sum holds however many they are. A
candidate that fails every request beside a sound baseline is rolled back by the second of them at the latest.

Each look compares *exceedances*. The threshold is a quantile of the baseline's latency, such as its p95. If candidate and baseline have
one distribution, then the number of candidate's requests above a threshold that `k` of `m` of the baseline's exceed is beta-binomial with
`k + 1` and `m - k`, whatever that distribution is (Mathisen, "A Method of Testing the Hypothesis that Two Samples are from the Same
Population", Annals of Mathematical Statistics 14, 1943; its tail is that of Fisher's exact test: Altham, JRSS B 31, 1969). Two
hypotheses are tested:

- *not slower*: more exceedances than chance allows reject it, and the candidate is rolled back;
- *slower by the tolerance*: the same counts against `1 + tolerance` times the threshold. Fewer exceedances than chance allows reject it.

Failures are compared alike, with a tolerance in the share of requests. A candidate is promoted where both tolerances are excluded, and
rolled back where `max_requests` show neither. So a candidate that is slower by the tolerance is promoted with a chance of at most
`beta`; and an equal one is rolled back with one of at most `alpha`, if `max_requests` is at least `requests_needed`.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from controlplane.policy.core.memory import CanaryLook, Chances, Verdict
from controlplane.policy.core.observation import Arm, Measured, Stratum

LOOKS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""The shares of `max_requests` at which the test looks. Early ones end a bad canary soon, and cost little of the error rates."""
EARLY_REQUESTS = 5
"""Of the first early look."""
_NONE = Measured()
EARLY = 0.1
"""The share of the chance to reject an equal candidate as worse that early looks spend."""


class CanaryTest(msgspec.Struct, frozen=True):
    """The candidate's quantile of latency may not be higher by `tolerance` (0.2: 20 %), nor its share of failed requests by
    `error_tolerance`. `alpha` and `beta` are its error rates.
    """

    max_requests: int
    quantile: float = 0.95
    tolerance: float = 0.2
    error_tolerance: float = 0.01
    alpha: float = 0.05
    beta: float = 0.05
    measures: dict[str, tuple[float, float]] = {}
    """Quantile and tolerance of what else may not be higher, by its name."""


def looks_at(test: CanaryTest) -> list[int]:
    """The requests of the candidate after which the test looks."""
    return [*_early_looks(test), *(math.ceil(share * test.max_requests) for share in LOOKS)]


def first_share(test: CanaryTest) -> int:
    """The requests of the candidate from which on its latency is judged too."""
    return math.ceil(LOOKS[0] * test.max_requests)


def look(
    test: CanaryTest, strata: Sequence[Stratum], done: Sequence[int], design_effects: tuple[float, float] = (1.0, 1.0)
) -> CanaryLook | None:
    """Judges what was counted, if enough requests were served since the last look. `done` are the requests at each earlier look.

    `design_effects` of candidate and baseline are by how much requests resemble others of their minute: counts are divided by them.
    """
    requests = sum(stratum.candidate.requests for stratum in strata)
    last = done[-1] if done else 0
    failed = _pooled(((_failed(each.candidate), _failed(each.baseline)) for each in strata), design_effects)
    if requests < first_share(test):
        return _early_look(test, failed, requests, last)
    before, now = _share(test, last) if last >= first_share(test) else 0.0, _share(test, requests)
    due = next((share for share in LOOKS if share > before), None)
    if due is None or now < due:
        return None
    hypotheses = 2 * (2 + len(test.measures))
    alpha, beta = (now - before) * (1 - EARLY) * test.alpha / hypotheses, (now - before) * test.beta
    slow = _pooled(((_slow(each.candidate), _slow(each.baseline)) for each in strata), design_effects)
    too_slow = _pooled(((_too_slow(each.candidate), _slow(each.baseline)) for each in strata), design_effects)
    tolerated = min(failed.share + test.error_tolerance, 1.0)
    chances = Chances(
        not_slower=_digits(at_least(slow.exceed, slow.of, slow.above, slow.below)),
        slower=_digits(at_most(too_slow.exceed, too_slow.of, too_slow.above, too_slow.below)),
        not_failing_more=_digits(at_least(failed.exceed, failed.of, failed.above, failed.below)),
        failing_more=_digits(
            at_most(failed.exceed, failed.of, tolerated * failed.base, (1 - tolerated) * failed.base + 1)
            if failed.base
            else 1.0
        ),
        measures={name: _higher(name, strata, design_effects) for name in test.measures},
    )
    verdict, reason = _verdict(test, chances, alpha, beta, last=now >= 1)
    return CanaryLook(requests, _digits(alpha), _digits(beta), chances, verdict, reason)


def _higher(name: str, strata: Sequence[Stratum], design_effects: tuple[float, float]) -> tuple[float, float]:
    """The chances of these counts if a measure is not higher, and if it is so by the tolerance."""
    arms = [(each.candidate.measures.get(name, _NONE), each.baseline.measures.get(name, _NONE)) for each in strata]
    high = _pooled((((ours.high, ours.known), (its.high, its.known)) for ours, its in arms), design_effects)
    too_high = _pooled((((ours.too_high, ours.known), (its.high, its.known)) for ours, its in arms), design_effects)
    return (
        _digits(at_least(high.exceed, high.of, high.above, high.below)),
        _digits(at_most(too_high.exceed, too_high.of, too_high.above, too_high.below)),
    )


def _early_look(test: CanaryTest, failed: "_Counts", requests: int, last: int) -> CanaryLook | None:
    """Judges failures alone, of the first requests."""
    alpha = (_early_spent(test, requests) - _early_spent(test, last)) * EARLY * test.alpha / 2
    if alpha <= 0:
        return None
    chance = _digits(at_least(failed.exceed, failed.of, failed.above, failed.below))
    chances = Chances(not_slower=1.0, slower=1.0, not_failing_more=chance, failing_more=1.0)
    verdict, reason = _verdict(test, chances, alpha, 0.0, last=False)
    return CanaryLook(requests, _digits(alpha), 0.0, chances, verdict, reason)


def _early_looks(test: CanaryTest) -> list[int]:
    looks, due = [], EARLY_REQUESTS
    while due < first_share(test):
        looks.append(due)
        due *= 2
    return looks


def _early_spent(test: CanaryTest, requests: int) -> float:
    """The share of what early looks may spend that is spent after so many requests."""
    return 1.0 - 0.5 ** sum(due <= requests for due in _early_looks(test))


def design_effect(blocks: Iterable[tuple[int, int]]) -> float:
    """By how much counts of (requests, exceeding ones) by minute vary more than independent requests would: at least 1.

    Requests of one burst are slow together, and count for less than as many independent ones (Kish, "Survey Sampling", 1965).
    """
    counts = [(of, exceed) for of, exceed in blocks if of]
    of, exceed = sum(each[0] for each in counts), sum(each[1] for each in counts)
    if len(counts) < 2 or not 0 < exceed < of:
        return 1.0
    share = exceed / of
    expected = of * share * (1 - share) * (len(counts) - 1) / len(counts)
    return max(_digits(sum((seen - each * share) ** 2 for each, seen in counts) / expected), 1.0)


def requests_needed(test: CanaryTest, baseline: Arm, weight: float, design_effect: float = 1.0) -> int | None:
    """How many requests of the candidate show that an equal one is equal, but for a chance of half of `alpha`.

    `max_requests` should be at least this many; the other half of `alpha` is spent on rejecting that the candidate is as good. It depends
    on the baseline's spread: how many of its requests are slower than `1 + tolerance` times its quantile. `weight` is the candidate's
    share of the requests. None where the baseline served too few to say.
    """
    if not baseline.answered or not baseline.requests:
        return None
    failing = baseline.failed / baseline.requests
    pairs = (
        (baseline.slow / baseline.answered, baseline.too_slow / baseline.answered),
        (min(failing + test.error_tolerance, 1.0), failing),
    )
    if any(equal >= refused for refused, equal in pairs):
        return None
    exclude, miss = _deviate(test.beta * (LOOKS[-1] - LOOKS[-2])), _deviate(test.alpha / 4)
    alone = max(
        ((exclude * math.sqrt(refused * (1 - refused)) + miss * math.sqrt(equal * (1 - equal))) / (refused - equal))
        ** 2
        for refused, equal in pairs
    )
    return math.ceil(
        alone * design_effect / (1 - weight)
    )  # the baseline's own variance: 1/n + 1/m is 1/n · 1/(1 − weight)


def at_least(exceed: int, of: int, above: float, below: float) -> float:
    """The chance that `exceed` or more of `of` exceed, where the share that does so is beta-distributed with `above` and `below`."""
    if exceed <= 0:
        return 1.0
    return (
        1.0 - at_most(exceed - 1, of, above, below)
        if _lies_below(exceed, of, above, below)
        else min(_tail(exceed, of, above, below, 1), 1.0)
    )


def at_most(exceed: int, of: int, above: float, below: float) -> float:
    """The chance that `exceed` or fewer of `of` exceed, where the share that does so is beta-distributed with `above` and `below`."""
    if not 0 <= exceed < of:
        return float(exceed >= of)
    return (
        min(_tail(exceed, of, above, below, -1), 1.0)
        if _lies_below(exceed + 1, of, above, below)
        else 1.0 - at_least(exceed + 1, of, above, below)
    )


def _lies_below(exceed: int, of: int, above: float, below: float) -> bool:
    """Whether the count lies below the mean, so that the lower tail is the one to sum."""
    return exceed * (above + below) < of * above


def _tail(start: int, of: int, above: float, below: float, step: int) -> float:
    """The sum of the beta-binomial distribution from `start` upwards (1) or downwards (-1), by the ratio of neighbours."""
    term = math.exp(
        _log_beta(start + above, of - start + below) - _log_beta(above, below) - _log_beta(start + 1, of - start + 1)
    ) / (of + 1)
    total, count = 0.0, start
    while term > total * 1e-12:
        total += term
        if step > 0:
            term *= (of - count) * (count + above) / ((count + 1) * (of - count - 1 + below)) if count < of else 0.0
        else:
            term *= count * (of - count + below) / ((of - count + 1) * (count - 1 + above)) if count else 0.0
        count += step
    return total


def _log_beta(first: float, second: float) -> float:
    return math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second)


class _Counts(NamedTuple):
    """Counts of both pools over all strata: `exceed` of `of` of the candidate, and the baseline's `share` of `base` requests."""

    exceed: int
    of: int
    share: float
    base: float

    @property
    def above(self) -> float:
        return self.share * self.base + 1

    @property
    def below(self) -> float:
        return max((1 - self.share) * self.base, 1e-6)


def _slow(arm: Arm) -> tuple[int, int]:
    return arm.slow, arm.answered


def _too_slow(arm: Arm) -> tuple[int, int]:
    return arm.too_slow, arm.answered


def _failed(arm: Arm) -> tuple[int, int]:
    return arm.failed, arm.requests


def _pooled(pairs: Iterable[tuple[tuple[int, int], tuple[int, int]]], design_effects: tuple[float, float]) -> _Counts:
    """The candidate's and the baseline's (exceed, of) of each stratum as of one time in which the candidate had one weight.

    The baseline counts in the proportions of the candidate, and with as many requests as give the sum its variance. A stratum without
    requests of either says nothing.
    """
    ours, theirs = design_effects
    usable = [(c_exceed, c_of, b_exceed, b_of) for (c_exceed, c_of), (b_exceed, b_of) in pairs if c_of and b_of]
    of = sum(each[1] for each in usable)
    if not of:
        return _Counts(0, 0, 0.0, 0.0)
    share = sum(c_of * b_exceed / b_of for _, c_of, b_exceed, b_of in usable) / of
    base = of * of / sum(c_of * c_of / b_of for _, c_of, _, b_of in usable)
    exceed = sum(each[0] for each in usable)
    return _Counts(round(exceed / ours), round(of / ours), share, base / theirs)


def _share(test: CanaryTest, requests: int) -> float:
    return min(requests / test.max_requests, 1.0)


def _deviate(chance: float) -> float:
    return NormalDist().inv_cdf(1 - chance)


def _digits(value: float) -> float:
    """Six digits: what a record keeps must not depend on the last bit of a machine's arithmetic."""
    return float(f"{value:.6g}")


def _verdict(test: CanaryTest, chances: Chances, alpha: float, beta: float, *, last: bool) -> tuple[Verdict, str]:
    level = f"p{test.quantile * 100:g}"
    otherwise = "the chance of these counts would be {} otherwise"
    if chances.not_slower <= alpha:
        return "worse", f"its {level} is higher than the baseline's: {otherwise.format(_words(chances.not_slower))}"
    if chances.not_failing_more <= alpha:
        return "worse", f"it fails more often than the baseline: {otherwise.format(_words(chances.not_failing_more))}"
    for name, (not_higher, _) in chances.measures.items():
        if not_higher <= alpha:
            what = f"its {name} at {_level(test, name)} is {_side(name)} than the baseline's"
            return "worse", f"{what}: {otherwise.format(_words(not_higher))}"
    as_fast = f"that its {level} is not {test.tolerance:.0%} higher"
    as_sound = f"that it does not fail {test.error_tolerance:.2%} of its requests more"
    shown = [(chances.slower, as_fast), (chances.failing_more, as_sound)]
    shown += [
        (higher, f"that its {name} at {_level(test, name)} is not {test.measures[name][1]:.0%} {_side(name)}")
        for name, (_, higher) in chances.measures.items()
    ]
    missing = [text for chance, text in shown if chance > beta]
    if not missing:
        larger = _words(max(chance for chance, _ in shown))
        return "equal", f"the counts show {', and '.join(text for _, text in shown)}: {otherwise.format(larger)}"
    if last:
        return "undecided", f"{test.max_requests:,} requests do not show {' or '.join(missing)}"
    return "continue", "the counts do not yet show whether it is worse or as good"


def _level(test: CanaryTest, name: str) -> str:
    share = test.measures[name][0]
    return f"p{(share if _side(name) == 'higher' else 1 - share) * 100:g}"


def _side(name: str) -> str:
    """On which side a measure is worse."""
    return "lower" if name.startswith("score:") else "higher"


def _words(chance: float) -> str:
    return f"{chance:.2g}" if chance >= 1e-4 else "below 0.0001"
