"""Whether a request would have been seen: telemetry notes for how long it received."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

RECORDED_STEP_S = 300
NOTED_WITHIN_S = 60.0
"""What telemetry received is noted so much later."""
MIN_UNMEASURED_S = 30
"""Where nobody knows what gateways counted, a shorter time without requests was measured."""
MIN_RECORDED = 0.9
"""Where telemetry received for less than this part of five minutes, no request means nothing."""


def was_recorded(start_s: int, end_s: int, recorded_s: Mapping[int, float], now_s: float) -> bool:
    """Whether a request of this time would be known. `recorded_s`: for how long telemetry received, by the start of five minutes."""
    return all(share >= MIN_RECORDED for share in _shares(start_s, end_s, recorded_s, now_s))


def noted_s(at_s: int) -> float:
    """From when on it is noted for how long telemetry received in the five minutes of this time, s since the epoch."""
    return -(-at_s // RECORDED_STEP_S) * RECORDED_STEP_S + NOTED_WITHIN_S


def unrecorded(start_s: int, end_s: int, recorded_s: Mapping[int, float], now_s: float) -> list[tuple[int, int]]:
    """The stretches of this time of which a request would not be known, in order, s since the epoch. What telemetry received in the last
    five minutes of a stretch is taken to be their end: it began again at most NOTED_WITHIN_S before.
    """
    step_s = RECORDED_STEP_S
    low = {
        at
        for at in range(start_s // step_s * step_s, end_s, step_s)
        if not was_recorded(at, at + step_s, recorded_s, now_s)
    }
    begins = sorted(at for at in low if at - step_s not in low)
    lasts = sorted(at for at in low if at + step_s not in low)
    ends = [min(at + step_s, int(now_s)) - round(recorded_s.get(at, 0.0)) for at in lasts]
    stretches = [(max(begin, start_s), min(end, end_s)) for begin, end in zip(begins, ends, strict=True)]
    return [(begin, end) for begin, end in stretches if begin < end]


def longest_without(steps: Iterable[int], first: int, end: int) -> tuple[int, int]:
    """The longest run of steps from `first` up to `end`, without any of `steps`, as its first step and its end."""
    edges = [first - 1, *sorted(steps), end]
    return max(((before + 1, after) for before, after in pairwise(edges)), key=lambda run: run[1] - run[0])


def _shares(start_s: int, end_s: int, recorded_s: Mapping[int, float], now_s: float) -> Iterator[float]:
    """In which part of each five minutes of this time, as far as it is noted, telemetry received. What is not noted yet is taken as the
    newest that is."""
    noted_s = now_s - NOTED_WITHIN_S
    first, last, latest = (at // RECORDED_STEP_S * RECORDED_STEP_S for at in (start_s, end_s - 1, int(noted_s) - 1))
    for at_s in range(first, last + 1, RECORDED_STEP_S):
        looked_at_s = min(at_s, latest)
        expected_s = min(RECORDED_STEP_S, noted_s - looked_at_s)
        yield min(1.0, recorded_s.get(looked_at_s, 0.0) / expected_s) if expected_s > 0 else 1.0
