"""A metric's series over time: a line each, a gap where nothing was seen, a mark where a counter began again, a diamond for an exemplar."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.dashboard.core.figures.layout import (
    INK,
    PANEL,
    Figure,
    alone,
    layout,
    line,
    series_colour,
    x_axis,
    y_axis,
)
from controlplane.telemetry.query.core.metric_question import Drawn, DrawnSeries, Signal
from controlplane.telemetry.query.core.parameters import query_string

SHOWN = "%{y:.4~s}"


@dataclass(frozen=True, slots=True)
class Diamond:
    """An exemplar on the chart: `text` is its value with its unit, `href` its trace."""

    time_ns: int
    value: float
    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Diamonds:
    """`axis` is the title of the axis that they have of their own, on the right; empty where they stand on the lines'."""

    axis: str
    shown: Sequence[Diamond]


def signal_figure(
    drawn: Drawn, labels: Sequence[str], signal: Signal, unit: str, diamonds: Diamonds | None = None
) -> Figure:
    """`labels`: the lines' names, in order."""
    window = signal.range.window
    middles = [(start + drawn.step_ns / 2) / 1e6 for start in drawn.starts]
    title = f"{unit or 'value'}{' per second' if drawn.shown == 'rate' else ''}"
    traces: list[Figure] = []
    for number, (each, label) in enumerate(zip(drawn.lines, labels, strict=True)):
        y = [None if step is None else float(f"{step.value:.6g}") for step in each.steps]
        colour = series_colour(number)
        if drawn.rolled:
            traces.append(_highest(each, middles, label, colour))
        style = {"color": colour, "width": 1.5, "dash": "dash" if number >= 4 else "solid"}
        # a counter that began again is marked
        sizes = [7 if step and step.resets else dot for step, dot in zip(each.steps, alone(y, 5), strict=True)]
        traces.append(line(label, middles, y, style, SHOWN, marker={"color": colour, "size": sizes}))
    axes = {"xaxis": x_axis(window.from_ns, window.to_ns), "yaxis": y_axis(title, 0.0, 1.0, tickformat="~s")}
    if diamonds:
        traces.append(_diamonds(diamonds))
        if diamonds.axis:
            axes["yaxis2"] = y_axis(
                diamonds.axis, 0.0, 1.0, tickformat="~s", overlaying="y", side="right", showgrid=False, tickmode="auto"
            )
            axes["margin"] = {"l": 56, "r": 60, "t": 22, "b": 46}
    return {
        "data": traces,
        "layout": layout(
            height=360,
            uirevision=query_string(signal.pairs()),
            hovermode="x unified",
            showlegend=False,
            meta={"step_ms": drawn.step_ns / 1e6},
            **axes,
        ),
    }


def _highest(drawn: DrawnSeries, x: Sequence[float], label: str, colour: str) -> Figure:
    """The highest sample of each step, as a thin line above the means."""
    most = [None if step is None or step.most is None else float(f"{step.most:.6g}") for step in drawn.steps]
    style = {"color": colour, "width": 0.75, "shape": "hvh"}
    return line(f"{label}, highest", x, most, style, SHOWN, dots=0, opacity=0.6)


def _diamonds(diamonds: Diamonds) -> Figure:
    """The page makes each a link: `customdata` is where it leads, and what it says."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "exemplar",
        "x": [diamond.time_ns / 1e6 for diamond in diamonds.shown],
        "y": [diamond.value for diamond in diamonds.shown],
        "customdata": [[diamond.href, diamond.text] for diamond in diamonds.shown],
        "yaxis": "y2" if diamonds.axis else "y",
        "marker": {"symbol": "diamond", "size": 10, "color": INK, "line": {"color": PANEL, "width": 1.5}},
        "hovertemplate": "%{customdata[1]}, click for its trace",
    }
