"""Requests over time by what the cache did with them, stacked."""

from collections.abc import Sequence

from controlplane.dashboard.core.figures.layout import PANEL, Figure, layout, plain, x_axis, y_axis
from controlplane.telemetry.core.cache_rows import CachePoint
from controlplane.telemetry.query.core.question import Question

OUTCOMES = ("hit", "semantic", "partial", "coalesced", "miss", "bypass", "skipped")
"""In the order in which they are stacked: what saves most lies lowest."""
_COLOURS = ("--series-1", "--series-2", "--series-3", "--series-4", "--muted", "--bar", "--warn")


def outcomes_by_step(
    points: Sequence[CachePoint], starts: Sequence[int], received: Sequence[bool]
) -> dict[str, list[int | None]]:
    """Requests of each outcome that there is, by step; None in one without any of which it is not known that there were none."""
    counts = {(point.outcome, point.start_ns): point.requests for point in points}
    seen = {point.start_ns for point in points}
    return {
        outcome: [
            counts.get((outcome, start), 0) if known or start in seen else None
            for start, known in zip(starts, received, strict=True)
        ]
        for outcome in OUTCOMES
        if any(point.outcome == outcome for point in points)
    }


def cache_figure(
    by_outcome: dict[str, list[int | None]], starts: Sequence[int], question: Question, step_ns: int
) -> Figure:
    window, x = question.range.window, [(start + step_ns / 2) / 1e6 for start in starts]
    most = sum(max((count or 0 for count in counts), default=0) for counts in by_outcome.values())
    return {
        "data": [
            {
                "type": "bar", "name": outcome, "x": x, "y": counts, "width": step_ns / 1e6 * 0.92,
                "marker": {"color": f"var({_COLOURS[OUTCOMES.index(outcome)]})", "line": {"color": PANEL, "width": 0.5}},
                "hovertemplate": "%{y}",
            }
            for outcome, counts in by_outcome.items()
        ],
        "layout": layout(
            height=360,
            uirevision=question.query(),
            barmode="stack",
            showlegend=True,
            xaxis=x_axis(window.from_ns, window.to_ns),
            yaxis=y_axis("requests", 0.0, 1.0, tickformat=plain(most)),
            meta={"step_ms": step_ns / 1e6},
            margin={"l": 56, "r": 12, "t": 30, "b": 46},
        ),
    }  # fmt: skip
