"""The latency page's figure: stages stacked over time, first token beside the whole request, and how many requests there were."""

from collections.abc import Mapping, Sequence

from controlplane.dashboard.figures.layout import INK, MUTED, Figure, layout, x_axis, y_axis
from controlplane.dashboard.palette import BANDS, look
from controlplane.telemetry.ask.question import QUANTILES, Quantile, Question
from controlplane.telemetry.store.types import LatencyPoint

Column = list[float | None]
DASHES = {"p50": "dot", "p95": "solid", "p99": "solid"}
SERIES_DASHES = ("dash", "dot", "dashdot", "longdash")
LABEL_PX = 6.8  # of a character, about: labels stand side by side


def latency_figure(
    points: Sequence[LatencyPoint], question: Question, step_ns: int, hrefs: Sequence[str] = ()
) -> Figure:
    """One bar per step. Steps without requests stay empty: a gap is drawn as a gap.

    `hrefs`: where a click on each of `grid(...)`'s steps leads; carried in `layout.meta`.
    """
    window = question.range.window
    starts = grid(window.from_ns, window.to_ns, step_ns)
    by_start = {point.start_ns: point for point in points}
    column = [by_start.get(start) for start in starts]
    unit, scale = _unit(points)
    middles = [(start + step_ns / 2) / 1e6 for start in starts]
    traces = [
        *_stack(column, middles, question.quantile, unit, scale, step_ns),
        *_e2e(column, middles, question.quantile, unit, scale),
        *_first_token(column, middles, question.quantile, unit, scale),
        *_counts(column, middles, step_ns),
    ]
    return {
        "data": traces,
        "layout": layout(
            height=560,
            uirevision=question.query(),
            barmode="stack",
            bargap=0,
            hovermode="x unified",
            hoversubplots="axis",
            showlegend=False,
            xaxis=x_axis(
                window.from_ns, window.to_ns, anchor="y3", title={"text": "UTC", "standoff": 2, "font": {"size": 11}}
            ),
            yaxis=y_axis(f"stages at {question.quantile}, {unit}", 0.46, 1.0),
            yaxis2=y_axis(f"{question.quantile}, {unit}", 0.18, 0.40),
            annotations=_labels(points, question.quantile),
            yaxis3=y_axis("requests", 0.0, 0.11, nticks=3),
            meta={"hrefs": list(hrefs), "step_ms": step_ns / 1e6},
        ),
    }


def grid(from_ns: int, to_ns: int, step_ns: int) -> list[int]:
    """Starts of the steps that cover the range: whole multiples of the step since the epoch, as the store cuts them."""
    return list(range(from_ns - from_ns % step_ns, to_ns, step_ns))


def _stack(
    column: Sequence[LatencyPoint | None], x: Column | list[float], q: Quantile, unit: str, scale: float, step_ns: int
) -> list[Figure]:
    bands: list[Figure] = []
    for stage in BANDS:
        y = [None if point is None else _scaled(point.stack_ms.get(q, {}).get(stage), scale) for point in column]
        if not any(y):
            continue
        style = look(stage)
        bands.append(
            {
                "type": "bar",
                "name": style.label,
                "x": x,
                "y": y,
                "width": step_ns / 1e6 * 0.92,
                "marker": {
                    "color": style.colour,
                    "line": {"width": 0},
                    "pattern": {
                        "shape": style.pattern,
                        "size": 5,
                        "solidity": 0.25,
                        "fgcolor": "var(--pattern)",
                        "fillmode": "overlay",
                    },
                },
                "hovertemplate": f"%{{y:.3~s}} {unit}",
            }
        )
    return bands


def _e2e(column: Sequence[LatencyPoint | None], x: list[float], q: Quantile, unit: str, scale: float) -> list[Figure]:
    """The exact quantile over the bars, and those below it; higher ones would flatten the bars."""
    shown = QUANTILES[: QUANTILES.index(q) + 1]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",  # a step between two gaps is no line
            "marker": {"size": 3, "color": INK},
            "name": f"E2E {name}",
            "x": x,
            "y": [None if point is None else _scaled(getattr(point.e2e_ms, name), scale) for point in column],
            "connectgaps": False,
            "line": {"color": INK, "width": 2 if name == q else 1, "dash": DASHES[name]},
            "hovertemplate": f"%{{y:.3~s}} {unit}",
        }
        for name in shown
    ]


def _first_token(
    column: Sequence[LatencyPoint | None], x: list[float], q: Quantile, unit: str, scale: float
) -> list[Figure]:
    """A line per definition of TTFT, each named: unlike ones are never merged."""
    definitions = sorted({name for point in column if point for name in point.ttft_ms})
    lines = [("E2E", INK, "solid", [None if point is None else getattr(point.e2e_ms, q) for point in column])]
    for number, definition in enumerate(definitions):
        y = [
            getattr(point.ttft_ms[definition], q) if point and definition in point.ttft_ms else None for point in column
        ]
        lines.append((f"TTFT ({definition})", series_colour(number), SERIES_DASHES[number % 4], y))
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "marker": {"size": 3, "color": colour},
            "name": name,
            "x": x,
            "y": [_scaled(value, scale) for value in y],
            "yaxis": "y2",
            "connectgaps": False,
            "line": {"color": colour, "width": 1.5, "dash": dash},
            "hovertemplate": f"%{{y:.3~s}} {unit}",
            # E2E is in the hover already, with the bars
            **({"hoverinfo": "skip", "hovertemplate": None} if name == "E2E" else {}),
        }
        for name, colour, dash, y in lines
    ]


def series_colour(number: int) -> str:
    return f"var(--series-{number % 4 + 1})"


def _labels(points: Sequence[LatencyPoint], q: Quantile) -> list[Figure]:
    """What each line is, written where it is drawn."""
    definitions = sorted({name for point in points for name in point.ttft_ms})
    texts = [("E2E", INK), *((f"TTFT ({name})", series_colour(number)) for number, name in enumerate(definitions))]
    labels = [_label(f"bars: requests around {q}; line: exact E2E {q}", MUTED, 1.0, 0)]
    shift = 0.0
    for text, colour in texts:
        labels.append(_label(f"<b>{text}</b>", colour, 0.40, shift))
        shift += LABEL_PX * len(text) + 14
    return labels if points else []


def _label(text: str, colour: str, y: float, shift_px: float) -> Figure:
    return {
        "text": text,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "xshift": shift_px,
        "yshift": 2,
        "showarrow": False,
        "font": {"size": 11, "color": colour},
    }


def _counts(column: Sequence[LatencyPoint | None], x: list[float], step_ns: int) -> list[Figure]:
    def bars(name: str, colour: str, pattern: str, y: list[int | None]) -> Figure:
        return {
            "type": "bar",
            "name": name,
            "x": x,
            "y": y,
            "yaxis": "y3",
            "width": step_ns / 1e6 * 0.92,
            "marker": {
                "color": colour,
                "line": {"width": 0},
                "pattern": {"shape": pattern, "size": 4, "fgcolor": "var(--pattern)"},
            },
            "hovertemplate": "%{y}",
        }

    served = bars(
        "requests without error",
        "var(--bar)",
        "",
        [point.requests - point.errors if point else None for point in column],
    )
    if not any(point and point.errors for point in column):
        return [served]
    return [served, bars("errors", "var(--bad)", "", [point.errors if point else None for point in column])]


def _unit(points: Sequence[LatencyPoint]) -> tuple[str, float]:
    """Milliseconds, or seconds where they are in the thousands."""
    highest = max((point.e2e_ms.p95 for point in points), default=0.0)
    return ("s", 0.001) if highest >= 2000 else ("ms", 1.0)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else float(f"{value * scale:.5g}")


def legend(points: Sequence[LatencyPoint]) -> Mapping[str, tuple[str, ...]]:
    """What the figure holds, for the legend beside it: stages with any time, and TTFT's definitions."""
    stages = tuple(
        stage for stage in BANDS if any(point.stack_ms.get(q, {}).get(stage) for point in points for q in QUANTILES)
    )
    return {"stages": stages, "ttft": tuple(sorted({name for point in points for name in point.ttft_ms}))}
