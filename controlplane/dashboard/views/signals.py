"""Received metrics: the state of targets, the metrics by name, and one metric over time."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links, vendor
from controlplane.dashboard.changes import changes_in, marked
from controlplane.dashboard.core.figures.signals import signal_figure
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views.common import choices, freshness_context, page, presets, render_page
from controlplane.telemetry.core.metric_types import Newest, SeriesInfo, TargetEvent, TargetState
from controlplane.telemetry.query import metric_answers
from controlplane.telemetry.query.core import metric_question
from controlplane.telemetry.query.core.metric_question import Drawn, Signal
from controlplane.telemetry.query.core.question import Question

MAX_LINES = 8
"""Four colours, solid and dashed: more cannot be distinguished."""
MAX_ROWS = 100
MAX_EVENTS = 50
LOOKS = {"up": ("●", "good"), "down": ("✕", "bad"), "stale": ("▲", "warn"), "former": ("◼", "muted")}
SHOWN = {"value": "value", "rate": "per second"}


@page
def signals(request: HttpRequest) -> HttpResponse:
    """Without `metric`: targets, their events, and metrics by `text`. With it: its series over time, narrowed by `match`."""
    now_ns = time.time_ns()
    signal = metric_question.parse(dict(request.GET.lists()), now_ns)
    if signal.text:  # a search goes away from the metric that it was begun on
        signal = replace(signal, metric="", matchers=(), shown=None)
    context: dict[str, Any] = {
        **range_context(request.path, signal),
        "signal": signal,
        "plotly": vendor.plotly(),
        "metrics": [] if signal.metric else metric_answers.metrics(signal.text),
    }
    if signal.metric:
        newest = metric_answers.newest(signal)
        drawn = metric_answers.drawn(signal, [each.info for each in newest[:MAX_LINES]]) if newest else None
        context |= metric_context(request.path, signal, newest, drawn, now_ns)
        if context["figure"]:
            changed = changes_in(signal.range.window)
            context |= {"figure": marked(context["figure"], changed), "changes": changed}
        newest_ns = max((each.time_ns for each in newest), default=None)
    else:
        targets = metric_answers.targets(signal.range.window)
        context |= targets_context(targets, metric_answers.events(signal.range.window), now_ns)
        newest_ns = max((each.time_ns for each in targets), default=None)
    context |= freshness_context(context["question"], newest_ns, now_ns)
    return render_page(request, "dashboard/signals.html", context)


def range_context(path: str, signal: Signal) -> dict[str, Any]:
    """The range bar: presets, and twice as long."""
    question = links.plain(signal.range)

    def query(other: Question) -> str:
        return link_query([("from", other.range.from_text), ("to", other.range.to_text), *signal.pairs()[2:]])

    wider = links.wider(question)
    return {
        "path": path,
        "question": question,  # the freshness line and the form read its range
        "presets": presets(question, query),
        "kept": [pair for pair in signal.pairs()[2:] if pair[0] != "text"],
        "wider": query(wider) if wider else "",
        "resume": query(links.back(question, "15m")),
        "overview_query": link_query(signal.pairs()[:2]),
    }


def targets_context(targets: Sequence[TargetState], events: Sequence[TargetEvent], now_ns: int) -> dict[str, Any]:
    """Targets, the unhealthy ones first, and when they went down and up."""
    states = metric_answers.target_states(targets, now_ns)
    rows = sorted(map(partial(target_row, now_ns), targets, states), key=lambda row: (row["order"], row["target"].job))
    former = [row for row in rows if row["state"] == "former"]
    return {
        "targets": rows[: len(rows) - len(former)],
        "former": former,
        "up": sum(row["state"] == "up" for row in rows),
        "down": sum(row["state"] == "down" for row in rows),
        "stale": sum(row["state"] == "stale" for row in rows),
        "events": [{"event": each, "look": LOOKS["up" if each.up else "down"]} for each in events[:MAX_EVENTS]],
        "events_left_out": max(0, len(events) - MAX_EVENTS),
    }


def target_row(now_ns: int, target: TargetState, state: metric_answers.TargetStateNow) -> dict[str, Any]:
    """A target as it is known now: a target that was up and was not scraped since is stale."""
    icon, tone = LOOKS[state]
    return {
        "target": target,
        "state": state,
        "order": ("down", "stale", "up", "former").index(state),
        "icon": icon,
        "tone": tone,
        "age_s": max(0.0, (now_ns - target.time_ns) / 1e9),
        "since_s": max(0.0, (now_ns - target.since_ns) / 1e9),
        "up_query": link_query(
            [("metric", "up"), ("match", f"instance={target.instance}"), ("match", f"job={target.job}")]
        ),
    }


def metric_context(
    path: str, signal: Signal, newest: Sequence[Newest], drawn: Drawn | None, now_ns: int
) -> dict[str, Any]:
    """One metric: its chart, the series behind it and the same figures as a table."""
    names = varying([each.info for each in newest])
    shown = drawn.shown if drawn else signal.shown or "value"
    unit = unit_of(newest[0].info) if newest else ""
    labels = [label(each.info, names) for each in newest[:MAX_LINES]]
    return {
        "names": names,
        "kind": newest[0].info.kind if newest else "",
        "unit": unit,
        "shown": SHOWN[shown],
        "series": [
            {
                "newest": each,
                "labels": [each.info.labels.get(name, "") for name in names],
                "value": PAGE.figure(each.value, unit),
                "age_s": max(0.0, (now_ns - each.time_ns) / 1e9),
                "number": number % 4 + 1 if number < MAX_LINES else 0,
                "dashed": number >= 4,
                "resets": sum(step.resets for step in drawn.lines[number].steps if step)
                if drawn and number < MAX_LINES
                else 0,
                "query": link_query(signal.with_series(each.info).pairs()),
            }
            for number, each in enumerate(newest[:MAX_ROWS])
        ],
        "series_count": len(newest),
        "left_out": max(0, len(newest) - MAX_ROWS),
        "undrawn": max(0, len(newest) - MAX_LINES),
        "matches": [
            {
                "text": metric_question.matcher_text(matcher),
                "query": link_query(
                    [pair for pair in signal.pairs() if pair != ("match", metric_question.matcher_text(matcher))],
                ),
            }
            for matcher in signal.matchers
        ],
        "ways": choices(
            metric_question.SHOWN if newest and not newest[0].info.delta else (),
            shown,
            lambda way: link_query([*(pair for pair in signal.pairs() if pair[0] != "as"), ("as", way)]),
            SHOWN,
        ),
        "figure": signal_figure(drawn, labels, signal, unit) if drawn else None,
        "step_s": drawn.step_ns // 10**9 if drawn else 0,
        "rolled": drawn is not None and drawn.rolled,
        "line_labels": labels,
        "table": table(drawn, unit) if drawn else [],
    }


def table(drawn: Drawn, unit: str) -> list[dict[str, Any]]:
    """The chart's figures by step, the newest first; a gap is a dash."""
    unit = per_second(unit) if drawn.shown == "rate" else unit
    rows = [
        {
            "start_ns": start,
            "values": [
                {
                    "text": "–" if step is None else PAGE.figure(step.value, unit),
                    "most": PAGE.figure(step.most, unit) if step and step.most is not None else "",
                    "resets": step.resets if step else 0,
                }
                for step in (line.steps[number] for line in drawn.lines)
            ],
        }
        for number, start in enumerate(drawn.starts)
    ]
    return rows[::-1]


def per_second(unit: str) -> str:
    return f"{unit}/s"


def varying(series: Sequence[SeriesInfo]) -> list[str]:
    """The labels by which the series differ; of one alone, all of them."""
    names = sorted({name for info in series for name in info.labels})
    return [name for name in names if len(series) == 1 or len({info.labels.get(name, "") for info in series}) > 1]


def label(info: SeriesInfo, names: Sequence[str]) -> str:
    """A short name of a series."""
    return " · ".join(info.labels[name] for name in names if name in info.labels) or info.metric


def unit_of(info: SeriesInfo) -> str:
    """Of the series' values: short, where it is a usual one. How many there were, as a histogram's buckets say, has none."""
    counts = info.kind != "gauge" and info.metric.endswith(("_bucket", "_count"))
    return "" if counts else measured_unit(info)


def measured_unit(info: SeriesInfo) -> str:
    """Of what was measured: as the sender says, else as the name ends."""
    name = next((info.metric.removesuffix(part) for part in _PARTS if info.metric.endswith(part)), info.metric)
    for unit, short in UNITS.items():
        if info.unit == unit or (not info.unit and name.endswith(f"_{unit}")):
            return short
    return info.unit


_PARTS = ("_total", "_bucket", "_count", "_sum")
UNITS = {"seconds": "s", "bytes": "B", "us": "µs", "ms": "ms", "ratio": "", "percent": "%"}
