"""What every figure shares: type, colours out of the theme, gridlines, hover, lines with gaps, words on the chart."""

from collections.abc import Sequence
from typing import Any

from controlplane.core.formatting import THIN

Figure = dict[str, Any]

FONT = "system-ui, sans-serif"
INK, MUTED, RULE, PANEL = "var(--ink)", "var(--muted)", "var(--rule)", "var(--panel)"
MINUTES = "%a %Y-%m-%d %H:%M UTC"
"""How the hover of a chart of days writes its time."""
LEGEND_ABOVE = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}


TEMPLATE: Figure = {
    "layout": {
        "autosize": True,
        "margin": {"l": 56, "r": 12, "t": 22, "b": 46},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": MUTED},
        "hoverlabel": {"bgcolor": PANEL, "bordercolor": RULE, "font": {"family": FONT, "size": 12, "color": INK}},
        "dragmode": "zoom",
        "xaxis": {
            "gridcolor": RULE,
            "linecolor": RULE,
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikethickness": 1,
            "spikedash": "solid",
            "spikecolor": MUTED,
            "zeroline": False,
            "tickangle": 0,
            "title": {"standoff": 2, "font": {"size": 11}},
        },
        "yaxis": {"gridcolor": RULE, "zeroline": False, "title": {"standoff": 6, "font": {"size": 11}}},
    }
}
"""Weir's look, of every figure and in both schemes: the page puts the scheme's colour in the place of each `var(--name)`.

Plotly's Python classes check a figure against its schema in tens of milliseconds, so the tests do that, for the figure of every page.
"""


def layout(*, height: int, uirevision: str, **own: Any) -> Figure:
    """`uirevision`: as long as it stays, plotly keeps what the reader hid or zoomed when data is replaced. The pointer reads all that a
    moment has, on every chart of the figure.
    """
    return {
        "template": TEMPLATE, "height": height, "uirevision": uirevision, "separators": f".{THIN}", "legend": LEGEND_ABOVE,
        "hovermode": "x unified", "hoversubplots": "axis", **own,
    }  # fmt: skip


def x_axis(from_ns: int, to_ns: int, **own: Any) -> Figure:
    """Time, UTC. A crosshair follows the pointer through every chart that shares the axis."""
    return {
        "type": "date", "range": [from_ns / 1e6, to_ns / 1e6], "hoverformat": "%H:%M:%S UTC", "title": {"text": "UTC"}, **own,
    }  # fmt: skip


def y_axis(title: str, low: float, high: float, **own: Any) -> Figure:
    """`low` and `high`: the part of the figure's height that it takes, 0 at the bottom."""
    return {
        "title": {"text": title}, "domain": [low, high], "rangemode": "tozero", "fixedrange": True, "nticks": 5, **own,
    }  # fmt: skip


def plain(most: float) -> str:
    """The format of an axis up to `most`: plain numbers, or with k and M where there are thousands. `500m` would read as minutes."""
    return "~g" if most < 10_000 else "~s"


def line(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    style: Figure,
    hover: str,
    dots: int = 5,
    **own: Any,
) -> Figure:
    """A line that is broken at gaps. `dots`: the size of a value between two gaps, which is no line; 0 draws none."""
    marked = {"mode": "lines+markers", "marker": {"size": alone(y, dots), "color": style["color"]}}
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "connectgaps": False, "line": style,
        "hovertemplate": hover, **(marked if dots else {}), **own,
    }  # fmt: skip


def alone(y: Sequence[float | None], size: int) -> list[int]:
    """Sizes of markers: those of values between two gaps, and else 0."""
    around = [None, *y, None]
    return [size if y[at] is not None and around[at] is around[at + 2] is None else 0 for at in range(len(y))]


def words_above(text: str, colour: str = MUTED, **own: Any) -> Figure:
    """A line of small text above the chart, from its left edge on."""
    return {
        "text": text, "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 2,
        "showarrow": False, "font": {"size": 11, "color": colour}, **own,
    }  # fmt: skip


def shaded(from_s: float, to_s: float) -> Figure:
    """A time that is marked over the whole height."""
    return {
        "type": "rect", "xref": "x", "x0": from_s * 1000, "x1": to_s * 1000, "yref": "paper", "y0": 0, "y1": 1,
        "line": {"width": 0}, "fillcolor": "var(--mark)", "opacity": 0.7, "layer": "below",
    }  # fmt: skip


def dotted(colour: str, **ends: Any) -> Figure:
    return {"type": "line", "line": {"color": colour, "width": 1, "dash": "dot"}, **ends}


def series_colour(number: int) -> str:
    """Of four, which repeat."""
    return f"var(--series-{number % 4 + 1})"
