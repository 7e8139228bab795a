"""Converts histograms of every kind to classic buckets: cumulative counts by upper bound.

Exponential (OTLP) and native (Prometheus) histograms have bounds at base^i with base = 2^(2^-scale). They are merged to a scale of
at most 2 (a bound every 19 %), and to coarser scales until at most MAX_BOUNDS remain. Bounds of a coarser scale are among those of a finer
one, so equal bounds of several senders match. https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

Bucket = tuple[float, float]
"""Upper bound, and the number of observations at or below it."""

FINEST_SCALE = 2
COARSEST_SCALE = -10
MAX_BOUNDS = 96
MAX_INDEX = 2**31
MAX_NATIVE_BUCKETS = 10_000


def explicit(bounds: Sequence[float], counts: Sequence[float]) -> list[Bucket]:
    """Buckets of `bounds` and the count of each, of which there is one more. Raises ValueError where they do not match."""
    if len(counts) != len(bounds) + 1:
        raise ValueError("a histogram has not one bucket count more than bounds")
    if any(not low < high for low, high in pairwise(bounds)) or any(b != b for b in bounds):
        raise ValueError("a histogram's bounds do not ascend")
    total = 0.0
    buckets: list[Bucket] = []
    for bound, count in zip((*bounds, math.inf), counts, strict=True):
        if not count >= 0:
            raise ValueError("a histogram's bucket has a negative count")
        total += count
        if bound != math.inf or not buckets or buckets[-1][0] != math.inf:
            buckets.append((bound, total))
        else:
            buckets[-1] = (bound, total)
    return buckets


def exponential(
    scale: int, zero_count: float, zero_threshold: float, positive: Mapping[int, float], negative: Mapping[int, float]
) -> list[Bucket]:
    """Buckets of an exponential histogram: `positive[i]` counts values in (base^i, base^(i+1)], `negative[i]` the same below zero.

    Raises ValueError for negative counts and for a scale or index out of range.
    """
    if zero_count < 0 or any(not count >= 0 for count in (*positive.values(), *negative.values())):
        raise ValueError("a histogram's bucket has a negative count")
    if any(abs(index) > MAX_INDEX for index in (*positive, *negative)) or not -16 <= scale <= 64:
        raise ValueError("a histogram's scale or bucket index is out of range")
    positive = {index: count for index, count in positive.items() if count}
    negative = {index: count for index, count in negative.items() if count}
    down = max(0, scale - FINEST_SCALE)
    positive, negative, scale = _coarser(positive, down), _coarser(negative, down), scale - down
    while _span(positive) + _span(negative) > MAX_BOUNDS and scale > COARSEST_SCALE:
        positive, negative, scale = _coarser(positive, 1), _coarser(negative, 1), scale - 1
    buckets: list[Bucket] = []
    total = 0.0
    if negative:
        for index in range(max(negative), min(negative) - 1, -1):
            total += negative.get(index, 0)
            buckets.append((-_bound(scale, index), total))  # (-base^(i+1), -base^i] ends at -base^i
    total += zero_count
    if zero_count or negative or positive:
        buckets.append((max(0.0, zero_threshold), total))
    if positive:
        low = min(positive)
        if (edge := _bound(scale, low)) > buckets[-1][0]:
            buckets.append((edge, total))
        for index in range(low, max(positive) + 1):
            total += positive.get(index, 0)
            bound = _bound(scale, index + 1)
            if bound > buckets[-1][0]:
                buckets.append((bound, total))
            else:  # within the threshold of zero
                buckets[-1] = (buckets[-1][0], total)
    if not buckets or buckets[-1][0] != math.inf:
        buckets.append((math.inf, total))
    return buckets


def native_index(spans: Sequence[tuple[int, int]], counts: Sequence[float]) -> dict[int, float]:
    """Counts by OTLP's index from a native histogram's spans `(offset, length)`. Prometheus' bucket i ends at base^i, OTLP's begins there.

    Raises ValueError where spans and counts do not match.
    """
    if len(counts) > MAX_NATIVE_BUCKETS or sum(length for _, length in spans) != len(counts):
        raise ValueError("a native histogram's spans and buckets do not fit together")
    by_index: dict[int, float] = {}
    at, place = 0, 0
    for offset, length in spans:
        at += offset
        for _ in range(length):
            by_index[at - 1] = counts[place]
            at, place = at + 1, place + 1
    return by_index


def _span(counts: Mapping[int, float]) -> int:
    return max(counts) - min(counts) + 1 if counts else 0


def _coarser(counts: Mapping[int, float], steps: int) -> dict[int, float]:
    merged: dict[int, float] = {}
    for index, count in counts.items():
        merged[index >> steps] = merged.get(index >> steps, 0) + count
    return merged


def _bound(scale: int, index: int) -> float:
    """base^index; infinite or zero outside the range of a double."""
    exponent = math.ldexp(index, -scale)
    if exponent >= 1024:
        return math.inf
    if exponent < -1074:
        return 0.0
    return math.pow(2.0, exponent)


def text(bound: float) -> str:
    """The bound as Prometheus writes it in the label `le`."""
    if math.isinf(bound):
        return "+Inf" if bound > 0 else "-Inf"
    return str(int(bound)) if bound == int(bound) and abs(bound) < 1e15 else repr(bound)
