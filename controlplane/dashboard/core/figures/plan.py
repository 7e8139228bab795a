"""Figures of a plan: replicas by hour and pool, several plans as lines, and what each region costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.dashboard.core.figures.layout import (
    INK,
    MINUTES,
    Figure,
    layout,
    line,
    plain,
    series_colour,
    x_axis,
    y_axis,
)

PATTERNS = ("", "/", "x", ".")
"""With four colours: sixteen bars that can be told apart without colour."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Hours:
    """A value for each hour from `start_s` on; None where there is none."""

    name: str
    start_s: int
    values: Sequence[float | None]


def plan_figure(pools: Sequence[Hours], cost_usd: Hours | None, key: str, lines: Hours | None = None) -> Figure:
    """Stacked bars of replicas by pool, and a line of how many of them the `lines` of the lane take; below them what all replicas cost in
    each hour, where prices are known.
    """
    top = 0.0 if cost_usd is None else 0.30
    traces: list[Figure] = [
        {
            "type": "bar", "name": pool.name, "x": _middles(pool), "y": list(pool.values), "width": HOUR_MS,
            "marker": _marker(number), "hovertemplate": "%{y:.0f}",
        }
        for number, pool in enumerate(pools)
    ]  # fmt: skip
    if lines is not None:
        traces.append(_line(lines, {"color": INK, "width": 1.5, "dash": "dot", "shape": "hvh"}, "%{y:.2g}"))
    axes: Figure = {"yaxis": y_axis("replicas", top, 1.0)}
    if cost_usd is not None:
        style = {"color": INK, "width": 1.5, "shape": "hvh"}
        traces.append(_line(cost_usd, style, "%{y:,.2f} USD", yaxis="y2", showlegend=False))
        axes["yaxis2"] = y_axis("USD per hour", 0.0, top - 0.06, nticks=3)
    return {
        "data": traces,
        "layout": _layout(
            pools, 440, key, barmode="stack", bargap=0, anchor="y2" if cost_usd is not None else "y", **axes
        ),
    }


def compared_figure(plans: Sequence[Hours], key: str) -> Figure:
    """A line of all replicas for each plan; the first one, with which the others are compared, is the strongest."""
    traces = [
        _line(
            plan,
            {
                "color": INK if not number else series_colour(number - 1),
                "width": 2.5 if not number else 1.6,
                "dash": DASHES[number % len(DASHES)],
                "shape": "hvh",
            },
        )
        for number, plan in enumerate(plans)
    ]
    return {"data": traces, "layout": _layout(plans, 360, key, yaxis=y_axis("replicas", 0.0, 1.0))}


def regions_figure(
    regions: Sequence[str], gpu_hours: Sequence[float], cost_usd: Sequence[float | None], key: str
) -> Figure:
    """Bars of a quarter's GPU-hours and cost, side by side, for each region."""

    most_usd = max((each or 0.0 for each in cost_usd), default=0.0)

    def bars(name: str, values: Sequence[float | None], number: int, axis: str, unit: str) -> Figure:
        return {
            "type": "bar", "name": name, "x": list(regions), "y": list(values), "yaxis": axis, "offsetgroup": str(number),
            "marker": _marker(number), "texttemplate": "%{y:,.0f}", "textposition": "outside", "cliponaxis": False,
            "hovertemplate": f"%{{y:,.0f}} {unit}",
        }  # fmt: skip

    return {
        "data": [
            bars("GPU-hours", gpu_hours, 3, "y", "GPU-hours"),
            bars("cost", cost_usd, 2, "y2", "USD"),
        ],
        "layout": layout(
            height=340,
            uirevision=key,
            hovermode="closest",
            barmode="group",
            bargap=0.4,
            showlegend=True,
            margin={"l": 64, "r": 64, "t": 40, "b": 40},
            xaxis={"type": "category", "fixedrange": True, "showspikes": False},
            yaxis=y_axis("GPU-hours", 0.0, 1.0, tickformat=plain(max(gpu_hours, default=0.0))),
            yaxis2=y_axis(
                "USD",
                0.0,
                1.0,
                tickformat=plain(most_usd),
                overlaying="y",
                side="right",
                showgrid=False,
                tickmode="auto",
            ),
        ),
    }


def _layout(shown: Sequence[Hours], height: int, key: str, *, anchor: str = "y", **own: object) -> Figure:
    from_s = min((each.start_s for each in shown), default=0)
    to_s = max((each.start_s + 3600 * len(each.values) for each in shown), default=3600)
    axis = x_axis(from_s * 10**9, to_s * 10**9, hoverformat=MINUTES, anchor=anchor)
    return layout(height=height, uirevision=key, showlegend=True, xaxis=axis, **own)


def _marker(number: int) -> Figure:
    return {
        "color": series_colour(number),
        "opacity": 0.85,
        "line": {"width": 0},
        "pattern": {
            "shape": PATTERNS[number // 4 % 4], "size": 6, "solidity": 0.25, "fgcolor": "var(--pattern)", "fillmode": "overlay",
        },
    }  # fmt: skip


def _line(hours: Hours, style: Figure, hover: str = "%{y:,.0f}", **own: Any) -> Figure:
    return line(hours.name, _middles(hours), list(hours.values), style, hover, dots=0, **own)


def _middles(hours: Hours) -> list[float]:
    return [hours.start_s * 1000 + (at + 0.5) * HOUR_MS for at in range(len(hours.values))]
