"""What every figure shares: type, colours out of the theme, gridlines, hover."""

from typing import Any

Figure = dict[str, Any]

FONT = "system-ui, sans-serif"
INK, MUTED, RULE, PANEL = "var(--ink)", "var(--muted)", "var(--rule)", "var(--panel)"


def layout(*, height: int, uirevision: str, **own: Any) -> Figure:
    """`uirevision`: as long as it stays, plotly keeps what the reader hid or zoomed when data is replaced."""
    return {
        "height": height,
        "uirevision": uirevision,
        "autosize": True,
        "margin": {"l": 56, "r": 12, "t": 22, "b": 46},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": MUTED},
        "hoverlabel": {"bgcolor": PANEL, "bordercolor": RULE, "font": {"family": FONT, "size": 12, "color": INK}},
        "dragmode": "zoom",
        **own,
    }


def x_axis(from_ns: int, to_ns: int, **own: Any) -> Figure:
    """Time, UTC. A crosshair follows the pointer through every chart that shares the axis."""
    return {
        "type": "date",
        "range": [from_ns / 1e6, to_ns / 1e6],
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
        "hoverformat": "%H:%M:%S UTC",
        **own,
    }


def y_axis(title: str, low: float, high: float, **own: Any) -> Figure:
    """`low` and `high`: the part of the figure's height that it takes, 0 at the bottom."""
    return {
        "title": {"text": title, "standoff": 6, "font": {"size": 11}},
        "domain": [low, high],
        "rangemode": "tozero",
        "fixedrange": True,
        "gridcolor": RULE,
        "zeroline": False,
        "nticks": 5,
        **own,
    }
