"""When each request is due. All times are fixed before the first request leaves, and no answer moves one of them."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MAX_REQUESTS = 2_000_000
POISSON, CONSTANT = 1.0, math.inf
"""Shapes of the gamma distribution of the times between arrivals: 1 is Poisson, less comes in bursts, infinity is a metronome."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_RATES = re.compile(r"(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))?")


class Segment(NamedTuple):
    """A part of a load: the rate goes from one to the other in a straight line."""

    from_rps: float
    to_rps: float
    duration_s: float


def duration_s(text: str) -> float:
    """Seconds of `500ms`, `30s`, `5m` or `1h`. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"{text!r} is no duration: write a number and its unit, such as 500ms, 30s, 5m or 1h")
    return float(match[1]) * _UNIT_S[match[2]]


def parse_load(text: str) -> tuple[Segment, ...]:
    """Segments of `5:30s,1-20:60s`: 5 requests/s for 30 s, then from 1 to 20 requests/s over 60 s. Raises ValueError."""
    return tuple(map(_segment, text.split(",")))


def _segment(text: str) -> Segment:
    rates, _, duration = text.strip().partition(":")
    match = _RATES.fullmatch(rates)
    if match is None or not duration:
        raise ValueError(f"{text!r} is no part of a load: write RATE:DURATION or FROM-TO:DURATION, such as 1-20:60s")
    return Segment(float(match[1]), float(match[2] or match[1]), duration_s(duration))


def arrivals_s(segments: Sequence[Segment], shape: float, seed: int) -> list[float]:
    """Seconds since the start, in order, of a renewal process whose rate follows the segments: arrivals at rate 1 with gamma
    distributed times between them, laid out along the expected count of the load. Raises ValueError where there are none, or too many.
    """
    expected = sum((part.from_rps + part.to_rps) / 2 * part.duration_s for part in segments)
    if not expected:
        raise ValueError("the load has no requests: give a rate above 0")
    if expected > MAX_REQUESTS:
        raise ValueError(f"the load has {expected:.0f} requests, and {MAX_REQUESTS} are the most of a run")
    marks = _unit_marks(expected, shape, np.random.default_rng(seed))
    times, begin_s, before = list[float](), 0.0, 0.0
    for part in segments:
        count = (part.from_rps + part.to_rps) / 2 * part.duration_s
        inside = marks[(marks >= before) & (marks < before + count)] - before
        times += (begin_s + _inverse(part, inside)).tolist()
        begin_s, before = begin_s + part.duration_s, before + count
    if not times:
        raise ValueError("no request is due in this load with this seed: make it longer")
    return sorted(times)  # rounding may swap two that are as good as one


def _unit_marks(
    expected: float, shape: float, generator: np.random.Generator
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    if math.isinf(shape):
        return np.arange(math.ceil(expected), dtype=np.float64)
    marks = np.empty(0)
    while not len(marks) or marks[-1] < expected:
        more = generator.gamma(shape, 1 / shape, size=max(16, math.ceil(expected * 1.1)))
        marks = np.concatenate((marks, (marks[-1] if len(marks) else 0.0) + np.cumsum(more)))
    return marks


def _inverse(
    part: Segment, count: "np.ndarray[tuple[int], np.dtype[np.float64]]"
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """After how many seconds of the segment so many requests were to be expected."""
    growth = (part.to_rps - part.from_rps) / part.duration_s
    if not growth:
        return count / part.from_rps if part.from_rps else count
    # of a·t + g·t²/2 = count, in the form that loses no digits where g is small
    root = np.sqrt(np.maximum(part.from_rps**2 + 2 * growth * count, 0.0))
    return np.asarray(2 * count / np.maximum(part.from_rps + root, 1e-300))
