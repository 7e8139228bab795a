"""The forecast page's figure: demand as it came, the forecast with its bands, and what earlier forecasts had said of the same steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlplane.dashboard.core.figures.layout import (
    INK,
    MINUTES,
    MUTED,
    Figure,
    dotted,
    layout,
    line,
    plain,
    series_colour,
    shaded,
    words_above,
    x_axis,
    y_axis,
)
from forecasting.forecast import Forecast
from forecasting.series import F64, Series

BANDS = ((0.05, 0.95, "P5 to P95", "var(--band-1)"), (0.1, 0.9, "P10 to P90", "var(--band-2)"))
"""The outer one first: the inner one is drawn over it."""
SHOWN = "%{y:,.4~r}"
BELOW = 0.26  # of the figure's height, for what was shed or answered from cache


@dataclass(frozen=True, slots=True)
class Event:
    """A planned event, such as a launch, shaded and named."""

    from_s: int
    to_s: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Earlier:
    """What was forecast of some steps at the page's horizon; NaN where nothing was. Points further apart than `joined_s` are not joined."""

    median: Series
    p90: Series
    joined_s: int


def forecast_figure(
    came: Series,
    forecast: Forecast | None,
    earlier: Earlier | None,
    apart: Sequence[tuple[str, Series]],
    events: Sequence[Event],
    *,
    unit: str,
    shown_s: tuple[int, int],
    now_s: int,
    key: str,
) -> Figure:
    """`came`: demand as measured; a gap stays a gap. `apart`: shed and answered from cache, drawn below.

    `shown_s`: the ends of the time axis.
    """
    below = [(name, series) for name, series in apart if len(series)]
    low = BELOW + 0.06 if below else 0.0
    traces = [*(_bands(forecast) if forecast else [])]
    if earlier:
        traces += [
            _sparse("forecast then", earlier.median, earlier.joined_s, {"width": 1.2, "dash": "dash"}),
            _sparse("P90 then", earlier.p90, earlier.joined_s, {"width": 1, "dash": "dot"}),
        ]
    traces.append(_line("came", came, {"color": INK, "width": 1.6}))
    for number, (name, series) in enumerate(below):
        style = {"color": series_colour(number + 1), "width": 1.3, "dash": ("solid", "dash")[number % 2]}
        traces.append(_line(name, series, style, yaxis="y2"))
    most = max(np.nanmax(came.values, initial=0.0), 0.0 if forecast is None else forecast.at(0.95).max(initial=0.0))
    now = dotted(MUTED, x0=now_s * 1000, x1=now_s * 1000, yref="paper", y0=0, y1=1)
    axes = {
        "xaxis": x_axis(shown_s[0] * 10**9, shown_s[1] * 10**9, hoverformat=MINUTES),
        "yaxis": y_axis(unit, low, 1.0, tickformat=plain(most)),
    }
    if below:
        axes["xaxis"]["anchor"] = "y2"
        axes["yaxis2"] = y_axis("requests/s", 0.0, BELOW, tickformat="~g", nticks=3)
    return {
        "data": traces,
        "layout": layout(
            height=460,
            uirevision=key,
            showlegend=True,
            shapes=[*(shaded(event.from_s, event.to_s) for event in events), now],
            annotations=[_word(now_s, "now"), *(_word(event.from_s, event.name) for event in events)],
            **axes,
        ),
    }


def _bands(forecast: Forecast) -> list[Figure]:
    x = _middles(forecast.start_s, forecast.step_s, len(forecast))
    traces: list[Figure] = []
    for low, high, name, colour in BANDS:
        edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "legendgroup": name}
        traces += [
            {**edge, "name": name, "y": rounded(forecast.at(low)), "showlegend": False, "hoverinfo": "skip"},
            {
                **edge,
                "name": name,
                "y": rounded(forecast.at(high)),
                "fill": "tonexty",
                "fillcolor": colour,
                "hovertemplate": f"P{round(high * 100)} %{{y:,.4~r}}<extra></extra>",
            },
        ]
    style = {"color": "var(--accent)", "width": 2}
    traces.append(_line("forecast, P50", Series(forecast.start_s, forecast.step_s, forecast.median), style))
    return traces


def _line(name: str, series: Series, style: Figure, **own: Any) -> Figure:
    x = _middles(series.start_s, series.step_s, len(series))
    return line(name, x, rounded(series.values), style, SHOWN, **own)


def _sparse(name: str, series: Series, joined_s: int, style: Figure) -> Figure:
    """The steps that have a value, as a line that is broken where they are further apart than `joined_s`."""
    known = [at for at, value in enumerate(series.values.tolist()) if math.isfinite(value)]
    x: list[float] = []
    y: list[float | None] = []
    for before, at in zip([None, *known], known, strict=False):
        if before is not None and (at - before) * series.step_s > joined_s:
            x.append((series.start_s + at * series.step_s) * 1000)
            y.append(None)
        x.append((series.start_s + (at + 0.5) * series.step_s) * 1000)
        y.append(float(f"{series.values[at]:.5g}"))
    return line(name, x, y, {"color": series_colour(0), **style}, SHOWN)


def rounded(values: F64) -> list[float | None]:
    """To five significant digits, with None for a gap: what a figure and JSON can hold."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


def _middles(start_s: int, step_s: int, count: int) -> list[float]:
    return [(start_s + (at + 0.5) * step_s) * 1000 for at in range(count)]


def _word(at_s: int, text: str) -> Figure:
    return words_above(text[:40], xref="x", x=at_s * 1000, yanchor="top", yshift=0)
