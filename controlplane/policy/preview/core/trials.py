"""Runs a canary many times on made-up counts that resemble the recorded ones, through the test that judges real ones."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controlplane.policy.core.canary import advance, test_of
from controlplane.policy.core.memory import CanaryMemory, Outcome
from controlplane.policy.core.observation import Arm, CanaryCounts, Stratum
from controlplane.policy.core.sequential import looks_at
from controlplane.policy.core.spec import CanarySpec

HOUR_S = 3_600


class Shares(NamedTuple):
    """Of a pool's requests the share that fails, and of the answered ones those above the baseline's quantile, and above
    `1 + latency_tolerance` times it.
    """

    failed: float
    slow: float
    too_slow: float


@dataclass(frozen=True, slots=True)
class Trial:
    outcome: Outcome
    requests: int  # of the candidate
    seconds: float


def thresholds(spec: CanarySpec) -> list[int]:
    """The requests of the candidate after which something may change: the test's looks, and the steps' ends."""
    steps = {math.ceil(number * spec.max_requests / len(spec.steps)) for number in range(1, len(spec.steps))}
    return sorted(steps.union(looks_at(test_of(spec))))


def trial(
    spec: CanarySpec,
    rps: float,
    baseline: Shares,
    candidate: Shares,
    effects: tuple[float, float],
    random: np.random.Generator,
) -> Trial:
    """One canary. `rps` are the requests/s that both pools get together. `effects` are the design effects of candidate and baseline."""
    memory, seconds, served, strata = _moved(spec, None, None, 0), 0.0, 0, [(_NOTHING, _NOTHING)]
    for due in thresholds(spec):
        percent = memory.percent
        seconds += (due - served) / (rps * percent / 100)
        ours, theirs = strata[-1]
        others = round((due - served) * (100 - percent) / percent)
        strata[-1] = (
            _added(ours, due - served, candidate, effects[0], random),
            _added(theirs, others, baseline, effects[1], random),
        )
        served = due
        counts = CanaryCounts(
            since_ms=0,
            until_ms=round(seconds * 1_000),
            strata=tuple(Stratum(candidate=mine, baseline=their) for mine, their in strata),
            candidate_design_effect=effects[0],
            baseline_design_effect=effects[1],
            age_ms=0,
        )
        after = _moved(spec, counts, memory, round(seconds * 1_000))
        strata += [(_NOTHING, _NOTHING)] * (len(after.entered) - len(memory.entered))
        memory = after
        if memory.outcome != "running":
            break
    return Trial(memory.outcome, served, seconds)


def _moved(spec: CanarySpec, counts: CanaryCounts | None, memory: CanaryMemory | None, now_ms: int) -> CanaryMemory:
    """With a candidate that is ready for each step."""
    after = advance("canary", spec, "", counts, memory, now_ms).memory
    assert after is not None
    return after


def steps_of(spec: CanarySpec, rps: float) -> Iterator[tuple[int, int, float]]:
    """Percent, requests of the candidate and seconds of each step, of a canary that is not decided before its end."""
    edges = [math.ceil(number * spec.max_requests / len(spec.steps)) for number in range(len(spec.steps) + 1)]
    for percent, begin, end in zip(spec.steps, edges, edges[1:], strict=False):
        yield percent, end - begin, (end - begin) / (rps * percent / 100)


_NOTHING = Arm()


def _added(arm: Arm, requests: int, shares: Shares, effect: float, random: np.random.Generator) -> Arm:
    """With so many more requests. Those that come together are as many as one: that is what a design effect says."""
    failed = _drawn(requests, shares.failed, effect, random)
    answered = requests - failed
    slow = _drawn(answered, shares.slow, effect, random)
    # what is too slow is slow as well
    too_slow = _drawn(slow, min(shares.too_slow / shares.slow, 1.0) if shares.slow else 0.0, effect, random)
    return Arm(
        requests=arm.requests + requests,
        failed=arm.failed + failed,
        answered=arm.answered + answered,
        slow=arm.slow + slow,
        too_slow=arm.too_slow + too_slow,
    )


def _drawn(of: int, share: float, effect: float, random: np.random.Generator) -> int:
    groups = max(1, round(of / effect)) if of else 0
    return min(of, round(int(random.binomial(groups, share)) * of / groups)) if groups else 0
