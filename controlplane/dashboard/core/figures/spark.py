"""A sparkline as an SVG path: values over time in the height of a line."""

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 84.0, 28.0
MARGIN = 2.0
RECORDED_STEP_S = 300
NOTED_WITHIN_S = 60.0
"""What telemetry received is noted so much later."""
MIN_RECORDED = 0.9
"""Where telemetry received for less than this part of five minutes, no request means nothing."""


def spark(values: Sequence[float | None]) -> str:
    """The `d` of a path through `values`, from zero to their highest; None breaks the line. Empty where there is nothing to draw."""
    known = [value for value in values if value is not None]
    if len(values) < 2 or not known:
        return ""
    top = max(known) or 1.0
    step = (WIDTH - 2 * MARGIN) / (len(values) - 1)
    parts, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * max(0.0, value) / top
        parts.append(f"{pen}{MARGIN + index * step:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def was_recorded(start_s: int, end_s: int, recorded_s: Mapping[int, float], now_s: float) -> bool:
    """Whether a request of this time would be known. `recorded_s`: for how long telemetry received, by the start of five minutes."""
    latest_s = int(now_s - NOTED_WITHIN_S) - 1
    first, last = (min(at_s, latest_s) // RECORDED_STEP_S * RECORDED_STEP_S for at_s in (start_s, end_s - 1))
    return all(
        recorded_s.get(at_s, 0.0) >= MIN_RECORDED * min(RECORDED_STEP_S, now_s - NOTED_WITHIN_S - at_s)
        for at_s in range(first, last + 1, RECORDED_STEP_S)
    )
