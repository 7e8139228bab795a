"""Burn rates against their thresholds over recorded history, what was left of the budget, and the pages it would have sent."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from controlplane.core.formatting import relative
from controlplane.dashboard.core.figures.layout import (
    INK,
    MINUTES,
    Figure,
    layout,
    line,
    series_colour,
    words_above,
    x_axis,
    y_axis,
)
from controlplane.slo.replay.core.episodes import Replay
from controlplane.slo.replay.core.judge import WindowJudged
from controlplane.slo.replay.core.variant import Variant

MAX_POINTS = 480
MIN_RATE = 0.01  # drawn at the bottom of a logarithmic axis
DASHES = ("solid", "dash", "dot", "dashdot")
LANES = {"ticket": ("var(--warn)", 5), "page": ("var(--bad)", 11)}


def replay_figure(variants: Sequence[Variant], from_s: int, to_s: int, key: str) -> Figure:
    """The first variant's rates; a lane of incidents for each. `key`: what is shown, so that a zoom outlives a refresh."""
    shown = variants[0].worst
    lanes = 0.08 * len(variants) + 0.02
    figure_layout = layout(
        height=430 + 26 * len(variants),
        uirevision=key,
        showlegend=False,
        xaxis=x_axis(from_s * 10**9, to_s * 10**9, anchor="y3", hoverformat=MINUTES),
        yaxis={**y_axis("burn rate", lanes + 0.30, 1.0, type="log", rangemode="normal", dtick=1), "nticks": None},
        yaxis2=y_axis("budget left", lanes + 0.05, lanes + 0.24, tickformat=".0%", nticks=3, rangemode="normal"),
        yaxis3={
            **y_axis("", 0.0, lanes, showgrid=False),
            "tickvals": list(range(len(variants))),
            "ticktext": [variant.name for variant in reversed(variants)],
            "range": [-0.6, len(variants) - 0.4],
        },
        annotations=_labels(shown),
        margin={"l": 84},
        meta={"view": "replay"},
    )
    traces = [*_rates(shown), _left(shown)] if shown else []
    for lane, variant in enumerate(reversed(variants)):
        traces += _incidents(variant, lane)
    return {"data": traces, "layout": figure_layout}


def _lengths(replay: Replay) -> dict[int, WindowJudged]:
    """A line for each long window; of two with the same the one with the lower threshold."""
    return {
        window.window.long_s: window
        for window in sorted(replay.judged.windows, key=lambda window: -window.window.budget_share)
    }


def _rates(replay: Replay) -> list[Figure]:
    times, cut = _steps(replay)
    traces: list[Figure] = []
    for number, (long_s, window) in enumerate(sorted(_lengths(replay).items())):
        colour, dash = series_colour(number), DASHES[number // 4 % 4]
        name = relative(long_s)
        rates = _highest(window.long, cut)
        drawn = [None if np.isnan(rate) else round(max(float(rate), MIN_RATE), 4) for rate in rates]
        style = {"color": colour, "width": 1.6, "dash": dash}
        traces.append(line(f"over {name}", times, drawn, style, "%{y:.3~g} ×", dots=0))
        threshold = _highest(window.threshold, cut)
        ends = [0, len(threshold) - 1] if len(set(threshold.tolist())) == 1 else list(range(len(threshold)))
        traces.append(
            line(
                f"{window.window.severity} above, over {name}",
                [times[at] for at in ends] if times else [],
                [round(float(threshold[at]), 4) for at in ends] if times else [],
                {"color": colour, "width": 1, "dash": "dash"},
                "",
                dots=0,
                hoverinfo="skip",
            )
        )
    return traces


def _left(replay: Replay) -> Figure:
    times, cut = _steps(replay)
    left = -_highest(-replay.judged.left_share, cut)
    drawn = [round(max(float(share), -1.0), 4) for share in left]
    return line("budget left", times, drawn, {"color": INK, "width": 1.4}, "%{y:.1%}", dots=0, yaxis="y2")


def _incidents(variant: Variant, lane: int) -> list[Figure]:
    """Bars: thin where a ticket is open, thick where a page is."""
    spans: dict[str, list[tuple[int, int]]] = {"ticket": [], "page": []}
    for replay in variant.replays.values():
        spans["ticket"] += [(each.opened_s, each.closed_s or replay.to_s) for each in replay.episodes]
        spans["page"] += [(each.opened_s, each.closed_s or replay.to_s) for each in replay.pages]
    traces = []
    for severity, (colour, width) in LANES.items():
        x: list[float | None] = []
        for opened_s, closed_s in spans[severity]:
            x += [opened_s * 1000, closed_s * 1000, None]
        y = [None if at is None else lane for at in x]
        style = {"color": colour, "width": width}
        marker = {"size": 5 if severity == "ticket" else 9, "color": colour, "symbol": "square"}
        name = f"{variant.name}: {severity}"
        traces.append(line(name, x, y, style, f"{severity} open", yaxis="y3", marker=marker))
    return traces


def _steps(replay: Replay) -> tuple[list[float], npt.NDArray[np.int64]]:
    """When each drawn point ends, ms, and the steps that points begin with."""
    history = replay.history
    steps = history.steps - history.first
    if steps <= 0:
        return [], np.zeros(0, np.int64)
    width = -(-steps // MAX_POINTS)
    cut = np.arange(history.first, history.steps, width)
    return [history.at_s(min(int(at) + width, history.steps) - 1) * 1000.0 for at in cut], cut


def _highest(values: npt.NDArray[np.float64], cut: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Of each drawn point's steps: a spike stays visible. nan only where all of them are."""
    if not len(cut):
        return np.zeros(0)
    highest: npt.NDArray[np.float64] = np.fmax.reduceat(values, cut)
    return highest


def _labels(replay: Replay | None) -> list[Figure]:
    labels = [words_above("burn rate over each window, and the rate it tells above (dashed)")]
    shift = 0.0
    for number, (long_s, _) in enumerate(sorted(_lengths(replay).items()) if replay else []):
        text = relative(long_s)
        labels.append(words_above(f"<b>{text}</b>", series_colour(number), xshift=380 + shift))
        shift += 6.8 * len(text) + 14
    return labels
