"""Simulated pairs of pools, as a canary compares them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from controlplane.policy.core.observation import Arm, Stratum
from controlplane.policy.core.sequential import CanaryTest, design_effect, look, looks_at

BLOCK = 20
"""Requests of the candidate in a minute."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Pair(NamedTuple):
    """Latencies are lognormal. The candidate's are `slower` times the baseline's, and in a share of `bursts` minutes each pool, by
    itself, is twice as slow.
    """

    slower: float = 1.0
    spread: float = 0.5
    failing: float = 0.005
    bursts: float = 0.0


def arm(latency: Floats, failed: Bools, threshold: float, test: CanaryTest) -> Arm:
    answered = latency[~failed]
    return Arm(
        requests=len(latency),
        failed=int(failed.sum()),
        answered=len(answered),
        slow=int((answered > threshold).sum()),
        too_slow=int((answered > threshold * (1 + test.tolerance)).sum()),
    )


def judged(test: CanaryTest, pair: Pair, weights: tuple[float, ...], rng: np.random.Generator) -> tuple[str, int]:
    """The verdict on one pair, and how many requests of the candidate it took. The candidate's weight grows in equal parts."""
    each = -(-test.max_requests // len(weights))
    parts = []
    for weight in weights:
        blocks = -(-each // BLOCK)
        others = round(BLOCK * (1 - weight) / weight)
        parts.append(
            (
                _pool(rng, pair, blocks, BLOCK, pair.slower, pair.failing),
                _pool(rng, pair, blocks, others, 1.0, 0.005),
                others,
            )
        )
    done: list[int] = []
    for served in looks_at(test):
        strata, left = [], served
        minutes: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        for (latency, failed), (base_latency, base_failed), others in parts:
            taken = min(left, each)
            if not taken:
                break
            left -= taken
            base = max(taken * others // BLOCK, 1)
            answered = base_latency[:base][~base_failed[:base]]
            threshold = float(np.partition(answered, int(0.95 * len(answered)))[int(0.95 * len(answered))])
            strata.append(
                Stratum(
                    candidate=arm(latency[:taken], failed[:taken], threshold, test),
                    baseline=arm(base_latency[:base], base_failed[:base], threshold, test),
                )
            )
            minutes[0].extend(_minutes(latency[:taken] > threshold, BLOCK))
            minutes[1].extend(_minutes(base_latency[:base] > threshold, others))
        effects = (design_effect(minutes[0]), design_effect(minutes[1])) if pair.bursts else (1.0, 1.0)
        seen = look(test, strata, done, effects)
        assert seen is not None
        if seen.verdict != "continue":
            return seen.verdict, served
        done.append(served)
    raise AssertionError("the last look concludes")


def _pool(
    rng: np.random.Generator, pair: Pair, blocks: int, requests: int, factor: float, failing: float
) -> tuple[Floats, Bools]:
    slowed = np.repeat(np.where(rng.random(blocks) < pair.bursts, 2.0, 1.0), requests)
    latency = rng.lognormal(0, pair.spread, blocks * requests) * factor * slowed
    return latency, rng.random(blocks * requests) < failing


def _minutes(slow: Bools, requests: int) -> list[tuple[int, int]]:
    return [(len(part), int(part.sum())) for part in (slow[at : at + requests] for at in range(0, len(slow), requests))]
