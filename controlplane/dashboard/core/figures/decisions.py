"""Decisions over time: latency, below it what was decided, and below that the replicas of each pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.dashboard.core.figures.latency import grid
from controlplane.dashboard.core.figures.layout import (
    INK,
    MUTED,
    PANEL,
    Figure,
    layout,
    line,
    series_colour,
    x_axis,
    y_axis,
)
from controlplane.telemetry.core.query_types import LatencyPoint
from controlplane.telemetry.query.core.question import Question

LANES = ("scale", "ladder", "canary", "route", "hold", "alarm")
SYMBOLS = {
    "scale": "triangle-up", "hold": "square", "ladder": "diamond", "route": "circle", "canary": "star", "alarm": "x",
}  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot")
MAX_POOLS = 8


@dataclass(frozen=True, slots=True)
class Marker:
    """Something that was decided. `href` leads to its record. Those of revisions in shadow, which were not done, are hollow."""

    at_ms: int
    kind: str
    text: str
    href: str
    is_shadow: bool
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """The replicas that a pool was to have, by time; None where nobody knew."""

    pool: str
    at_ms: Sequence[int]
    wanted: Sequence[int | None]


def decisions_figure(
    points: Sequence[LatencyPoint] | None,
    counts: Sequence[Counts],
    markers: Sequence[Marker],
    question: Question,
    step_ns: int,
) -> Figure:
    """`points` are None where the store does not answer: what was decided is shown all the same."""
    window = question.range.window
    traces = [*_latency(points or (), question, step_ns), *_markers(markers), *_replicas(counts)]
    decided = bool(markers or counts)
    return {
        "data": traces,
        "layout": layout(
            height=520 if decided else 260,
            uirevision=question.query(),
            hovermode="closest",
            showlegend=True,
            xaxis=x_axis(window.from_ns, window.to_ns, anchor="y3" if decided else "y"),
            yaxis=y_axis("E2E", 0.58 if decided else 0.0, 1.0, tickformat="~s", ticksuffix="s"),
            **(_decided_axes() if decided else {}),
            meta={"step_ms": step_ns / 1e6},
            margin={"l": 64, "r": 12, "t": 30, "b": 46},
        ),
    }


def _decided_axes() -> Figure:
    return {
        "yaxis2": {
            **y_axis("", 0.30, 0.53),
            "rangemode": "normal",
            "range": [len(LANES) - 0.5, -0.5],
            "tickvals": list(range(len(LANES))),
            "ticktext": list(LANES),
            "nticks": len(LANES),
        },
        "yaxis3": y_axis("replicas", 0.0, 0.25, nticks=4),
    }


def _latency(points: Sequence[LatencyPoint], question: Question, step_ns: int) -> list[Figure]:
    starts = grid(question.range.window.from_ns, question.range.window.to_ns, step_ns)
    by_start = {point.start_ns: point for point in points}
    lines: Mapping[str, tuple[str, float]] = {"p95": (INK, 2), "p50": (MUTED, 1)}
    x = [(start + step_ns / 2) / 1e6 for start in starts]
    return [
        line(
            f"E2E {quantile}",
            x,
            [_seconds(by_start.get(start), quantile) for start in starts],
            {"color": colour, "width": width},
            "%{y:.3~s}s",
            dots=0,
        )
        for quantile, (colour, width) in lines.items()
    ]


def _seconds(point: LatencyPoint | None, quantile: str) -> float | None:
    value = getattr(point.e2e_ms, quantile, None) if point else None
    return None if value is None else value / 1000


def _markers(markers: Sequence[Marker]) -> list[Figure]:
    traces = []
    for kind, symbol in SYMBOLS.items():
        for is_shadow in (False, True):
            shown = [each for each in markers if each.kind == kind and each.is_shadow == is_shadow]
            if not shown:
                continue
            symbols = ["triangle-down" if each.is_down else symbol for each in shown]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": kind,
                    "showlegend": False,
                    "x": [each.at_ms for each in shown],
                    "y": [LANES.index(kind)] * len(shown),
                    "yaxis": "y2",
                    "customdata": [[each.href, each.text] for each in shown],
                    "marker": {
                        "symbol": [f"{name}-open" if is_shadow else name for name in symbols],
                        "size": 11,
                        "color": f"var(--{'bad' if kind == 'alarm' else 'warn' if kind in ('hold', 'ladder') else 'accent'})",
                        "line": {"color": PANEL, "width": 1} if not is_shadow else {"width": 1.5},
                    },
                    "hovertemplate": f"%{{customdata[1]}}{' (shadow)' if is_shadow else ''}<br>click for its record<extra></extra>",
                }
            )
    return traces


def _replicas(counts: Sequence[Counts]) -> list[Figure]:
    return [
        line(
            each.pool,
            list(each.at_ms),
            list(each.wanted),
            {"color": series_colour(number), "width": 2, "shape": "hv", "dash": DASHES[number // 4 % 4]},
            "%{y} replicas",
            dots=0,
            yaxis="y3",
        )
        for number, each in enumerate(counts[:MAX_POOLS])
    ]
