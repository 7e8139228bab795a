"""An objective's page: the budget that is left, over its period, and what each hour took of it."""

from collections.abc import Sequence
from itertools import pairwise

from controlplane.dashboard.core.figures.layout import (
    INK,
    MINUTES,
    Figure,
    alone,
    dotted,
    layout,
    shaded,
    words_above,
    x_axis,
    y_axis,
)
from controlplane.slo.core.burndown import Point
from controlplane.slo.core.period import SECOND_NS, Span

BUDGET = {"tickformat": ".0%", "automargin": True, "title": {"text": "budget left", "standoff": 6}}
"""Its labels have up to five digits where much more than all is spent."""


def burndown_figure(points: Sequence[Point], shown: Span, maintained: Sequence[Span], slug: str) -> Figure:
    """A line of what is left, falling to zero; bars of bad events below it; planned maintenance as shaded times."""
    steps_ms = [(after.start_s - point.start_s) * 1000 for point, after in pairwise(points)]
    step_ms = min(steps_ms, default=3_600_000)
    ends = [min(point.start_s * 1000 + step_ms, shown.to_ns // 1_000_000) for point in points]
    left = [None if point.left_share is None else round(point.left_share, 5) for point in points]
    lowest = min((value for value in left if value is not None), default=0.0)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "budget left",
                "x": ends,
                "y": left,
                "connectgaps": False,
                "marker": {"size": alone(left, 6), "color": "var(--accent)"},
                "line": {"color": "var(--accent)", "width": 2, "shape": "hv"},
                "fill": "tozeroy",
                "fillcolor": "var(--heat-1)",
                "hovertemplate": "%{y:.1%} left",
            },
            {
                "type": "bar",
                "name": "bad",
                "x": [point.start_s * 1000 + step_ms / 2 for point in points],
                "y": [point.bad for point in points],
                "customdata": [point.total for point in points],
                "width": step_ms,
                "yaxis": "y2",
                "marker": {"color": "var(--bad)"},
                "hovertemplate": "%{y} bad of %{customdata}",
            },
        ],
        "layout": layout(
            height=340,
            uirevision=slug,
            showlegend=False,
            bargap=0,
            xaxis=x_axis(shown.from_ns, shown.to_ns, anchor="y2", hoverformat=MINUTES),
            yaxis={**y_axis("budget left", 0.34, 1.0), **BUDGET, "range": [min(lowest * 1.05, -0.02), 1.02]},
            yaxis2=y_axis("bad", 0.0, 0.24, nticks=3),
            shapes=[
                dotted(INK, xref="paper", x0=0, x1=1, y0=0, y1=0),
                *(shaded(span.from_ns / SECOND_NS, span.to_ns / SECOND_NS) for span in maintained),
            ],
            annotations=[words_above("shaded: planned maintenance, not counted", x=1, xanchor="right", yshift=0)]
            if maintained
            else [],
            meta={"view": "burndown"},
        ),
    }
