"""A metric's series over time: a line each, a gap where nothing was seen, a mark where a counter began again."""

import math
from collections.abc import Sequence

from controlplane.dashboard.core.figures.layout import Figure, alone, layout, line, plain, series_colour, x_axis, y_axis
from controlplane.telemetry.query.core.metric_question import Drawn, DrawnSeries, Signal
from controlplane.telemetry.query.core.parameters import query_string


def signal_figure(drawn: Drawn, labels: Sequence[str], signal: Signal, unit: str) -> Figure:
    """`labels`: the lines' names, in order."""
    window = signal.range.window
    middles = [(start + drawn.step_ns / 2) / 1e6 for start in drawn.starts]
    title = f"{unit or 'value'}{' per second' if drawn.shown == 'rate' else ''}"
    values = [abs(step.value) for each in drawn.lines for step in each.steps if step]
    numbers = plain(max(filter(math.isfinite, values), default=0.0))
    shown = f"%{{y:.4{numbers}}}"
    traces: list[Figure] = []
    for number, (each, label) in enumerate(zip(drawn.lines, labels, strict=True)):
        y = [_drawn(step.value if step else None) for step in each.steps]
        colour = series_colour(number)
        if drawn.rolled:
            traces.append(_highest(each, middles, label, colour, shown))
        style = {"color": colour, "width": 1.5, "dash": "dash" if number >= 4 else "solid"}
        # a counter that began again is marked
        sizes = [7 if step and step.resets else dot for step, dot in zip(each.steps, alone(y, 5), strict=True)]
        traces.append(line(label, middles, y, style, shown, marker={"color": colour, "size": sizes}))
    axes = {"xaxis": x_axis(window.from_ns, window.to_ns), "yaxis": y_axis(title, 0.0, 1.0, tickformat=numbers)}
    return {
        "data": traces,
        "layout": layout(
            height=360,
            uirevision=query_string(signal.pairs()),
            showlegend=False,
            meta={"step_ms": drawn.step_ns / 1e6},
            **axes,
        ),
    }


def _highest(drawn: DrawnSeries, x: Sequence[float], label: str, colour: str, shown: str) -> Figure:
    """The highest sample of each step, as a thin line above the means."""
    most = [_drawn(step.most if step else None) for step in drawn.steps]
    style = {"color": colour, "width": 0.75, "shape": "hvh"}
    return line(f"{label}, highest", x, most, style, shown, dots=0, opacity=0.6)


def _drawn(value: float | None) -> float | None:
    """An infinite value has no place in a chart: its table says it."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
