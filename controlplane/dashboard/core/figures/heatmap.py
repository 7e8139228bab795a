"""Latency over time as a heatmap: how many answered requests entered in each step with an E2E of each length; a region can be chosen."""

from bisect import bisect_left
from collections.abc import Sequence
from math import log10

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.figures.latency import grid
from controlplane.dashboard.core.figures.layout import INK, Figure, layout, line, words_above, x_axis
from controlplane.dashboard.core.zone import clock, said
from controlplane.telemetry.core.query_types import HEATMAP_EDGES_NS, HeatmapCell, LatencyPoint, Region
from controlplane.telemetry.query.core.question import Question

ROW = 0.1  # of a decade of milliseconds: as the store's edges lie
BOTTOM = -1.1  # log10 ms of the bottom of the first row, which is open below
SCALE = [[0, "var(--heat-1)"], [0.5, "var(--heat-2)"], [1, "var(--heat-3)"]]


def heatmap_figure(
    cells: Sequence[HeatmapCell],
    points: Sequence[LatencyPoint],
    question: Question,
    step_ns: int,
    region: Region | None = None,
) -> Figure:
    """Rows are a tenth of a decade high, columns a step wide; cells without requests stay empty.

    Its vertical axis is log10 of milliseconds; `layout.meta` has what a page needs to turn a drag into a region.
    """
    window = question.range.window
    starts = grid(window.from_ns, window.to_ns, step_ns)
    rows = [bisect_left(HEATMAP_EDGES_NS, cell.low_ns) for cell in cells]
    low, high = (min(rows), max(rows) + 1) if rows else (11, 41)  # 1 ms to 1 s
    counts: list[list[float | None]] = [[None] * len(starts) for _ in range(low, high)]
    texts: list[list[str | None]] = [[None] * len(starts) for _ in range(low, high)]
    columns = {start: at for at, start in enumerate(starts)}
    for cell, row in zip(cells, rows, strict=True):
        if (at := columns.get(cell.start_ns)) is not None:
            counts[row - low][at] = round(log10(1 + cell.requests), 3)  # few beside many can still be seen
            texts[row - low][at] = words(cell)
    shown = [bottom(low), bottom(high)]
    return {
        "data": [
            {
                "type": "heatmap",
                "x": [(start + step_ns / 2) / 1e6 for start in starts],
                "y": [round(bottom(row) + ROW / 2, 3) for row in range(low, high)],
                "z": counts,
                "text": texts,
                "zmin": 0,
                "colorscale": SCALE,
                "showscale": False,
                "hoverongaps": False,
                "xgap": 1,
                "ygap": 1,
                "hovertemplate": "%{text}<extra></extra>",
            },
            _quantile_line(points, question, step_ns),
        ],
        "layout": layout(
            height=560,
            uirevision=question.query(),
            showlegend=False,
            hovermode="closest",
            xaxis=x_axis(window.from_ns, window.to_ns),
            yaxis={
                "range": shown,
                "tickvals": [value for value, _ in ticks(*shown)],
                "ticktext": [text for _, text in ticks(*shown)],
            },
            shapes=[_outline(region, question, shown)] if region else [],
            annotations=[
                words_above(
                    f"E2E of answers; the stronger, the more; line: {question.quantile}. Drag over a region, or click a cell, to explain it"
                )
            ],
            meta={
                "view": "heatmap",
                "step_ms": step_ns / 1e6,
                "x": [window.from_ns / 1e6, window.to_ns / 1e6],
                "y": shown,
                "row": ROW,
            },
        ),
    }


def bottom(row: int) -> float:
    """log10 ms of a row's lower edge."""
    return round(BOTTOM + row * ROW, 3)


def words(cell: HeatmapCell) -> str:
    """A cell as its hover says it."""
    length = f"{PAGE.ns(cell.low_ns)} to {PAGE.ns(cell.high_ns)}" if cell.high_ns else f"over {PAGE.ns(cell.low_ns)}"
    return f"{PAGE.count(cell.requests)} answered in {length}<br>{clock(cell.start_ns)} {said()}"


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round lengths between two of log10 ms: 1, 2 and 5 of each decade, or decades alone where there are many."""
    steps = (1, 2, 5) if high - low < 3 else (1,)
    round_values = [(log10(step) + decade, step * 10.0**decade) for decade in range(-2, 8) for step in steps]
    return [(round(at, 4), PAGE.threshold_ms(value)) for at, value in round_values if low <= at <= high]


def _quantile_line(points: Sequence[LatencyPoint], question: Question, step_ns: int) -> Figure:
    """The page's quantile of E2E over the cells; a gap of requests is a gap of the line."""
    by_start = {point.start_ns: getattr(point.e2e_ms, question.quantile, None) for point in points}
    starts = grid(question.range.window.from_ns, question.range.window.to_ns, step_ns)
    x = [(start + step_ns / 2) / 1e6 for start in starts]
    y = [round(log10(value), 4) if (value := by_start.get(start)) else None for start in starts]
    return line("", x, y, {"color": INK, "width": 1.5}, "", dots=0, hoverinfo="skip")


def _outline(region: Region, question: Question, shown: Sequence[float]) -> Figure:
    window = region.window or question.range.window
    low, high = shown
    return {
        "type": "rect",
        "x0": window.from_ns / 1e6,
        "x1": window.to_ns / 1e6,
        "y0": log10(region.min_e2e_ns / 1e6) if region.min_e2e_ns else low,
        "y1": log10(region.max_e2e_ns / 1e6) if region.max_e2e_ns else high,
        "line": {"color": "var(--bad)", "width": 2},
    }
