"""The latency page's figure: stages stacked over time, first token beside the whole request, and how many requests there were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.dashboard.core.figures.layout import (
    INK,
    Figure,
    alone,
    layout,
    line,
    series_colour,
    words_above,
    x_axis,
    y_axis,
)
from controlplane.dashboard.core.palette import BANDS, stage_style
from controlplane.telemetry.core.query_types import LatencyPoint
from controlplane.telemetry.query.core.question import QUANTILES, Quantile, Question

Column = list[float | None]
SECONDS = {"tickformat": "~s", "ticksuffix": "s"}  # SI prefixes: 500ms, 2s
SECONDS_SHOWN = "%{y:.3~s}s"
DASHES = {"p50": "dot", "p95": "solid", "p99": "solid"}
SERIES_DASHES = ("dash", "dot", "dashdot", "longdash")
LABEL_PX = 6.8  # of a character, about: labels stand side by side


@dataclass(frozen=True, slots=True)
class OtherLine:
    """What the chart is compared with: its points, which are drawn `later_ns` after their own time."""

    words: str
    points: Sequence[LatencyPoint]
    step_ns: int
    later_ns: int


def latency_figure(
    points: Sequence[LatencyPoint],
    question: Question,
    step_ns: int,
    hrefs: Sequence[str] = (),
    beside: OtherLine | None = None,
) -> Figure:
    """One bar per step, of its answered requests. Steps without any stay empty: a gap is drawn as a gap.

    `hrefs`: where a click on each of `grid(...)`'s steps leads; carried in `layout.meta`.
    """
    window = question.range.window
    starts = grid(window.from_ns, window.to_ns, step_ns)
    by_start = {point.start_ns: point for point in points}
    column = [by_start.get(start) for start in starts]
    middles = [(start + step_ns / 2) / 1e6 for start in starts]
    traces = [
        *_stack(column, middles, question.quantile, step_ns),
        *_e2e(column, middles, question.quantile),
        *([_beside(beside, question.quantile)] if beside else []),
        *_first_token(column, middles, question.quantile),
        *_counts(column, middles, step_ns),
        _stacked(column, middles, question.quantile),
    ]
    return {
        "data": traces,
        "layout": layout(
            height=560,
            uirevision=question.query(),
            barmode="stack",
            bargap=0,
            showlegend=False,
            xaxis=x_axis(window.from_ns, window.to_ns, anchor="y3"),
            yaxis=y_axis(f"stages at {question.quantile}", 0.46, 1.0, **SECONDS),
            yaxis2=y_axis(question.quantile, 0.18, 0.40, **SECONDS),
            annotations=_labels(points, question.quantile, beside.words if beside else ""),
            yaxis3=y_axis("requests", 0.0, 0.11, nticks=3),
            meta={"hrefs": list(hrefs), "step_ms": step_ns / 1e6},
        ),
    }


def grid(from_ns: int, to_ns: int, step_ns: int) -> list[int]:
    """Starts of the steps that cover the range: whole multiples of the step since the epoch, as the store cuts them."""
    return list(range(from_ns - from_ns % step_ns, to_ns, step_ns))


def _stack(column: Sequence[LatencyPoint | None], x: Column | list[float], q: Quantile, step_ns: int) -> list[Figure]:
    bands: list[Figure] = []
    for stage in BANDS:
        y = [None if point is None else _seconds(point.stack_ms.get(q, {}).get(stage)) for point in column]
        if not any(y):
            continue
        style = stage_style(stage)
        pattern = {"shape": style.pattern, "size": 5, "solidity": 0.25, "fillmode": "overlay"}
        bands.append(_bars(style.label, x, y, step_ns, style.colour, pattern, SECONDS_SHOWN))
    return bands


def _bars(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    step_ns: int,
    colour: str,
    pattern: Figure,
    hover: str,
    **own: str,
) -> Figure:
    """A bar each step, with a gap between two."""
    marker = {"color": colour, "line": {"width": 0}, "pattern": {**pattern, "fgcolor": "var(--pattern)"}}
    return {
        "type": "bar", "name": name, "x": x, "y": y, "width": step_ns / 1e6 * 0.92, "marker": marker, "hovertemplate": hover, **own,
    }  # fmt: skip


def _stacked(column: Sequence[LatencyPoint | None], x: list[float], q: Quantile) -> Figure:
    """The height of each bar, for the hover alone: the mean E2E of the requests that it is of. The exact quantile may be below it."""
    y = [_seconds(sum(point.stack_ms[q].values())) if point and point.stack_ms.get(q) else None for point in column]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"stages together, mean of requests around {q}",
        "x": x,
        "y": y,
        "marker": {"size": alone(y, 5), "opacity": 0},
        "hovertemplate": SECONDS_SHOWN,
    }


def _e2e(column: Sequence[LatencyPoint | None], x: list[float], q: Quantile) -> list[Figure]:
    """The exact quantile over the bars, and those below it; higher ones would flatten the bars."""
    shown = QUANTILES[: QUANTILES.index(q) + 1]
    return [
        line(
            f"E2E {name}",
            x,
            [None if point is None else _seconds(getattr(point.e2e_ms, name, None)) for point in column],
            {"color": INK, "width": 2 if name == q else 1, "dash": DASHES[name]},
            SECONDS_SHOWN,
        )
        for name in shown
    ]


def _beside(other: OtherLine, q: Quantile) -> Figure:
    """The exact quantile of what the chart is compared with, at the times of the chart's own."""
    by_start = {point.start_ns: point for point in other.points}
    starts = range(min(by_start), max(by_start) + 1, other.step_ns) if by_start else ()
    return line(
        f"E2E {q}, {other.words}",
        [(start + other.later_ns + other.step_ns / 2) / 1e6 for start in starts],
        [_seconds(getattr(by_start[start].e2e_ms, q, None)) if start in by_start else None for start in starts],
        {"color": "var(--accent)", "width": 2, "dash": "dash"},
        SECONDS_SHOWN,
    )


def _first_token(column: Sequence[LatencyPoint | None], x: list[float], q: Quantile) -> list[Figure]:
    """A line per definition of TTFT, each named: unlike ones are never merged. E2E stands beside them."""
    e2e = [None if point is None else _seconds(getattr(point.e2e_ms, q, None)) for point in column]
    # not in the hover: it is there already, with the bars
    lines = [line("E2E", x, e2e, {"color": INK, "width": 1.5}, "", yaxis="y2", hoverinfo="skip")]
    for number, definition in enumerate(sorted({name for point in column if point for name in point.ttft_ms})):
        y = [_seconds(getattr(point.ttft_ms.get(definition), q, None)) if point else None for point in column]
        style = {"color": series_colour(number), "width": 1.5, "dash": SERIES_DASHES[number % 4]}
        lines.append(line(f"TTFT ({definition})", x, y, style, SECONDS_SHOWN, yaxis="y2"))
    return lines


def _labels(points: Sequence[LatencyPoint], q: Quantile, beside: str) -> list[Figure]:
    """What each line is, written where it is drawn."""
    definitions = sorted({name for point in points for name in point.ttft_ms})
    texts = [
        ("E2E", INK),
        *((f"{'' if number else 'TTFT: '}{name}", series_colour(number)) for number, name in enumerate(definitions)),
    ]
    dashed = f"; dashed: {q} of {beside}" if beside else ""
    labels = [words_above(f"bars: requests around {q}; line: exact E2E {q}{dashed}")]
    shift = 0.0
    for text, colour in texts:
        labels.append(words_above(f"<b>{text}</b>", colour, y=0.40, xshift=shift))
        shift += LABEL_PX * len(text) + 14
    return labels if points else []


def _counts(column: Sequence[LatencyPoint | None], x: list[float], step_ns: int) -> list[Figure]:
    def bars(name: str, colour: str, shape: str, y: Sequence[int | None]) -> Figure:
        return _bars(name, x, y, step_ns, colour, {"shape": shape, "size": 4}, "%{y}", yaxis="y3")

    answered = [point.requests - point.errors - point.cancelled if point else None for point in column]
    traces = [bars("answered", "var(--bar)", "", answered)]
    if any(point and point.errors for point in column):
        traces.append(bars("errors", "var(--bad)", "", [point.errors if point else None for point in column]))
    if any(point and point.cancelled for point in column):
        traces.append(bars("cancelled", "var(--muted)", "/", [point.cancelled if point else None for point in column]))
    return traces


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else float(f"{value_ms / 1000:.5g}")


def legend(points: Sequence[LatencyPoint]) -> Mapping[str, tuple[str, ...]]:
    """What the figure holds, for the legend beside it: stages with any time, and TTFT's definitions."""
    stages = tuple(
        stage for stage in BANDS if any(point.stack_ms.get(q, {}).get(stage) for point in points for q in QUANTILES)
    )
    return {"stages": stages, "ttft": tuple(sorted({name for point in points for name in point.ttft_ms}))}
