"""What differs between two results beyond chance."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Literal

import msgspec
import numpy as np

from inference.loadtest.core.result import Result, samples_of
from inference.loadtest.core.samples import CUT_SHORT, MEASURES, Sample, rank, values

LEVEL = 0.05
"""How likely it is that any difference is said where there is none: shared among all comparisons (Bonferroni)."""
RESAMPLES = 2_000
_AT_ONCE = 1_000_000  # times, which bounds the memory
MIN_REQUESTS = 100
_SHARES = {"p50": 0.5, "p95": 0.95}
_COMPARED = ("ttft_from_due", "e2e_from_due", "tpot")
Verdict = Literal["worse", "better", "no difference", "unknown"]


class Difference(msgspec.Struct, frozen=True):
    """A figure of both, and how many times the first the second is, with the interval of that; of shares it is what they differ by.
    None is unknown.
    """

    name: str
    unit: str
    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None
    verdict: Verdict


class Comparison(msgspec.Struct, frozen=True):
    """`settings` are those that differ, by name."""

    before: str
    after: str
    differences: list[Difference]
    settings: dict[str, tuple[Any, Any]]
    invalid: list[str]

    @property
    def worse(self) -> bool:
        return any(difference.verdict == "worse" for difference in self.differences)


def compare(before: Result, after: Result, names: tuple[str, str], tolerance: float) -> Comparison:
    """A difference counts if chance does not explain it and it is more than `tolerance` (0..1). Raises ValueError."""
    earlier, later = samples_of(before), samples_of(after)
    measured = [(name, share) for name in _COMPARED for share in _SHARES]
    level = LEVEL / (len(measured) + 1)
    differences = [
        _latency(
            f"{name} {share}",
            values(earlier, MEASURES[name]),
            values(later, MEASURES[name]),
            _SHARES[share],
            level,
            tolerance,
        )
        for name, share in measured
    ]
    differences.append(_failed(earlier, later, level))
    keys = sorted({*before.settings, *after.settings})
    settings = {
        key: (before.settings.get(key), after.settings.get(key))
        for key in keys
        if before.settings.get(key) != after.settings.get(key)
    }
    invalid = [
        f"{name}: {fault}" for name, result in zip(names, (before, after), strict=True) for fault in result.faults
    ]
    return Comparison(*names, differences, settings, invalid)


def _latency(
    name: str, earlier: list[float], later: list[float], share: float, level: float, tolerance: float
) -> Difference:
    """Requests near each other in time share what happened, so whole stretches of them are drawn again (moving-block bootstrap)."""
    before, after = (_percentile(np.asarray(each), share) * 1000 if each else None for each in (earlier, later))
    if not before or not after or min(len(earlier), len(later)) < MIN_REQUESTS:
        return Difference(
            name, "ms", before, after, after / before if before and after else None, None, None, "unknown"
        )
    generator = np.random.default_rng(1)
    ratios = np.sort(_percentiles_drawn(later, share, generator) / _percentiles_drawn(earlier, share, generator))
    low, high = (float(ratios[rank(RESAMPLES, part)]) for part in (level / 2, 1 - level / 2))
    change = after / before
    verdict: Verdict = "no difference"
    if low > 1 and change > 1 + tolerance:
        verdict = "worse"
    elif high < 1 and change < 1 / (1 + tolerance):
        verdict = "better"
    return Difference(
        name, "ms", round(before, 3), round(after, 3), round(change, 4), round(low, 4), round(high, 4), verdict
    )


def _percentiles_drawn(seconds: list[float], share: float, generator: np.random.Generator) -> "np.ndarray[Any, Any]":
    """Of each resample."""
    times, size, at = np.asarray(seconds), max(1, math.isqrt(len(seconds))), rank(len(seconds), share)
    stretches, drawn = -(-len(times) // size), list[Any]()
    for begin in range(0, RESAMPLES, rows := max(1, _AT_ONCE // len(times))):
        shape = (min(rows, RESAMPLES - begin), stretches, 1)
        chosen = generator.integers(0, len(times) - size + 1, size=shape) + np.arange(size)
        drawn.append(np.partition(times[chosen.reshape(shape[0], -1)[:, : len(times)]], at, axis=1)[:, at])
    return np.concatenate(drawn)


def _percentile(times: "np.ndarray[Any, Any]", share: float) -> float:
    at = rank(len(times), share)
    return float(np.partition(times, at)[at])


def _failed(earlier: Sequence[Sample], later: Sequence[Sample], level: float) -> Difference:
    """Shares of requests that failed, by Newcombe's interval of the difference of two shares (Wilson)."""
    counts = [[bool(sample.failure) for sample in each if sample.failure != CUT_SHORT] for each in (earlier, later)]
    if not all(counts):
        return Difference("failed", "share", None, None, None, None, None, "unknown")
    (before, low_before, high_before), (after, low_after, high_after) = (
        _wilson(sum(each), len(each), level) for each in counts
    )
    change = after - before
    low = change - math.hypot(after - low_after, high_before - before)
    high = change + math.hypot(high_after - after, before - low_before)
    verdict: Verdict = "worse" if low > 0 else "better" if high < 0 else "no difference"
    return Difference("failed", "share", before, after, round(change, 6), round(low, 6), round(high, 6), verdict)


def _wilson(count: int, total: int, level: float) -> tuple[float, float, float]:
    """The share and its interval."""
    z = NormalDist().inv_cdf(1 - level / 2)
    share = count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return share, centre - half, centre + half
