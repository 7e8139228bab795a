"""Whether a request would have been seen: telemetry notes for how long it received."""

from collections.abc import Mapping

RECORDED_STEP_S = 300
NOTED_WITHIN_S = 60.0
"""What telemetry received is noted so much later."""
MIN_RECORDED = 0.9
"""Where telemetry received for less than this part of five minutes, no request means nothing."""


def was_recorded(start_s: int, end_s: int, recorded_s: Mapping[int, float], now_s: float) -> bool:
    """Whether a request of this time would be known. `recorded_s`: for how long telemetry received, by the start of five minutes."""
    latest_s = int(now_s - NOTED_WITHIN_S) - 1
    first, last = (min(at_s, latest_s) // RECORDED_STEP_S * RECORDED_STEP_S for at_s in (start_s, end_s - 1))
    return all(
        recorded_s.get(at_s, 0.0) >= MIN_RECORDED * min(RECORDED_STEP_S, now_s - NOTED_WITHIN_S - at_s)
        for at_s in range(first, last + 1, RECORDED_STEP_S)
    )
