"""A sparkline as an SVG path: values over time in the height of a line."""

from collections.abc import Sequence

WIDTH, HEIGHT = 84.0, 28.0
MARGIN = 2.0


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
