"""The latency page: which stage is slow, for whom, since when."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.dashboard import links, vendor
from controlplane.dashboard.changes import changes_in, marked
from controlplane.dashboard.compare import compare_context, comparisons, line_of, query_side
from controlplane.dashboard.core import comparison
from controlplane.dashboard.core.figures.heatmap import heatmap_figure
from controlplane.dashboard.core.figures.latency import OtherLine, grid, latency_figure, legend
from controlplane.dashboard.core.headline import headline
from controlplane.dashboard.core.palette import BANDS, stage_style
from controlplane.dashboard.core.screen import GROUPS, VIEWS, Screen, latency_screen
from controlplane.dashboard.failures import failures_context
from controlplane.dashboard.history import groups_of, history_context, stored_since, synthetic_context
from controlplane.dashboard.views.common import (
    choices,
    facet_values,
    filter_context,
    ledger_freshness,
    page,
    question_of,
    render_page,
)
from controlplane.telemetry.core.query_types import (
    Cells,
    Dimension,
    Group,
    HeatmapCell,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    Window,
)
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import choice
from controlplane.telemetry.query.core.question import QUANTILES, UNKNOWN, Quantile, Question
from controlplane.telemetry.query.core.slow import parse_slow
from controlplane.telemetry.query.core.timerange import fixed
from inference.contract.stages import BEFORE_THE_CALL

GROUP_ROWS = 12
TEXTS = {"prompt_bucket": "prompt", "": "none"}
"""Of dimensions."""
MAX_CELLS = 500
MAX_PAIRS = 20


@page
def latency(request: HttpRequest) -> HttpResponse:
    parameters, now_ns = dict(request.GET.lists()), time.time_ns()
    screen = latency_screen(request.path, parameters, now_ns)
    wanted, question = screen.question, answers.rounded(screen.question)
    by, across = cast(Dimension, screen.settings["by"]), cast(Dimension, screen.settings["across"])
    slow = parse_slow(parameters, now_ns)
    other = comparison.parse(parameters, wanted, now_ns)
    step = answers.step_ns(question)
    own = answers.of_groups(question, by)
    grouped = {
        name: answers.submit_query(answers.groups, answers.of_groups(question, name), name) for name in {by, "model"}
    }
    rolled = answers.rolled(question, step)
    report_query = answers.submit_query(answers.report, question, rolled)
    series = answers.submit_query(answers.series, question, step, rolled)
    cells = (
        answers.submit_query(answers.heatmap, question, step, rolled) if screen.settings["view"] == "heatmap" else None
    )
    pairs = answers.submit_query(answers.cells, answers.stored(question), (by, across), MAX_PAIRS) if across else None
    side = query_side(other, by) if other else None
    failed = answers.submit_query(answers.failures, question)
    values = facet_values(request, question)
    failures = failed.result()
    report = answers.with_failures(report_query.result(), failures, question)
    points, groups = series.result(), grouped[by].result()
    line = line_of(side) if side else None
    context: dict[str, Any] = {
        **data_context(question, report, grouped["model"].result(), points, step, line),
        **(compare_context(side, question, report, groups, by, now_ns, screen) if side else {}),
        "comparisons": comparisons(screen, other),
        **group_context(screen, groups, by),
        "groups_of": groups_of(question.range.window, own.range.window, by),
        **cells_context(screen, pairs.result() if pairs else None, by, across),
        "views": choices(VIEWS, screen.settings["view"], lambda view: screen.query(view=view)),
        "failures": failures_context(question, report.requests, report.errors, failures),
        **ledger_freshness(wanted, report.newest_ns, now_ns),
        **history_context(screen, question),
        **synthetic_context(question, exact=report.exact),
    }
    if cells:
        context["figure"] = heatmap_figure(cells.result(), points, question, step, slow.region)
    changed = changes_in(question.range.window)
    context |= {"figure": marked(context["figure"], changed), "changes": changed}
    context |= filter_context(screen, values)
    return render_page(request, "dashboard/latency.html", context | {"plotly": vendor.plotly()})


@page
def latency_table(request: HttpRequest) -> HttpResponse:
    """The chart's figures as a table."""
    question = answers.rounded(question_of(request)[0])
    step = answers.step_ns(question)
    if choice(dict(request.GET.lists()), "view", VIEWS, VIEWS[0]) == "heatmap":
        cells = answers.heatmap(question, step, answers.rolled(question, step))[::-1]
        linked = [{"cell": cell, "href": cell_href(question, cell, step)} for cell in cells[:MAX_CELLS]]
        left_out = max(0, len(cells) - MAX_CELLS)
        return render(request, "dashboard/_heatmap_table.html", {"rows": linked, "left_out": left_out})
    points = answers.series(question, step)
    shown = legend(points)
    rows = [
        {
            "start_ns": point.start_ns,
            "href": links.requests(step_question(question, point.start_ns, step)),
            "requests": point.requests,
            "errors": point.errors,
            "cancelled": point.cancelled,
            "e2e": getattr(point.e2e_ms, question.quantile, None),
            "ttft": [getattr(point.ttft_ms.get(name), question.quantile, None) for name in shown["ttft"]],
            "stages": [point.stack_ms.get(question.quantile, {}).get(stage) for stage in shown["stages"]],
        }
        for point in points
    ]
    return render(request, "dashboard/_series_table.html", {"question": question, "legend": shown, "rows": rows})


def data_context(
    question: Question,
    report: LatencyReport,
    by_model: Mapping[str, Group],
    points: Sequence[LatencyPoint],
    step: int,
    beside: OtherLine | None = None,
) -> dict[str, Any]:
    """Everything below the filter bar, from the store's answers."""
    window = question.range.window
    hrefs = [links.requests(step_question(question, start, step)) for start in grid(window.from_ns, window.to_ns, step)]
    summary = headline(report, by_model, question.quantile)
    return {
        "report": report,
        "headline": summary,
        "cause_means": f"{summary.cause}: {stage_style(summary.cause).means}." if summary and summary.cause else "",
        "slowest_href": links.requests(question, order="slowest"),
        "e2e": _figures(report.e2e_ms, question),
        "ttft": [
            {
                "definition": name,
                "number": number % 4 + 1,
                "count": report.ttft_count.get(name, 0),
                "figures": _figures(quantiles, question),
            }
            for number, (name, quantiles) in enumerate(sorted(report.ttft_ms.items()))
        ],
        "stages": _stage_rows(report, question),
        "figure": latency_figure(points, question, step, hrefs, beside),
    }


def group_context(screen: Screen, groups: Mapping[str, Group], by: Dimension) -> dict[str, Any]:
    """The second table: the same figures for each value of a dimension: values without answers first, then the slowest."""
    question = screen.question
    ranked = sorted(groups.items(), key=lambda group: -getattr(group[1].e2e_ms, question.quantile, math.inf))
    shown = []
    for value, report in ranked[:GROUP_ROWS]:
        summary = headline(report, {}, question.quantile)
        shown.append(
            {
                "value": value,
                "query": screen.query(question.with_filter(by, value)),
                "beside": screen.query(compare=f"{by}={value or UNKNOWN}"),
                "requests": report.requests,
                "errors": report.errors,
                "figures": _figures(report.e2e_ms, question),
                "cause": summary.cause if summary else "",
            }
        )
    return {
        "by": by,
        "group_choices": choices(
            (name for name in GROUPS if name != screen.settings["across"]), by, lambda by: screen.query(by=by), TEXTS
        ),
        "groups": shown,
        "groups_left_out": max(0, len(ranked) - GROUP_ROWS),
        "quantiles": choices(
            QUANTILES, question.quantile, lambda q: screen.query(question.with_quantile(cast(Quantile, q)))
        ),
    }


def cells_context(screen: Screen, pairs: Cells | None, by: Dimension, across: Dimension) -> dict[str, Any]:
    """The second table by two dimensions. Each pair leads to this screen with both filters."""
    question = screen.question
    shown = pairs.shown if pairs else ()
    values = [getattr(cell.e2e_ms, question.quantile, None) for cell in shown]
    longest = max((value for value in values if value), default=0)
    return {
        "across": across,
        "across_choices": choices(
            (name for name in ("", *GROUPS) if name != by), across, lambda across: screen.query(across=across), TEXTS
        ),
        "pairs": [
            {
                "cell": cell,
                "query": screen.query(question.with_filter(by, cell.row).with_filter(across, cell.column)),
                "figures": _figures(cell.e2e_ms, question),
                "bar": round(100 * value / longest, 1) if value and longest else 0,
            }
            for cell, value in zip(shown, values, strict=True)
        ],
        "pairs_left_out": pairs,
        "pairs_since": stored_since(question.range.window) if pairs else "",
    }


def cell_href(question: Question, cell: HeatmapCell, step: int) -> str:
    """The requests of one cell, which counts answered ones."""
    answered = step_question(question, cell.start_ns, step).with_filter("status", "ok")
    return links.requests(answered, **links.lengths(cell.low_ns, cell.high_ns))


def step_question(question: Question, start_ns: int, step: int) -> Question:
    """The requests of one bar."""
    return question.with_range(fixed(Window(start_ns, start_ns + step)))


def _figures(quantiles: Quantiles | None, question: Question) -> list[dict[str, Any]]:
    return [{"value": getattr(quantiles, q, None), "current": q == question.quantile} for q in QUANTILES]


def _stage_rows(report: LatencyReport, question: Question) -> list[dict[str, Any]]:
    rows = []
    for name in BANDS:
        figures = report.stages.get(name)
        if figures is None or (name in BEFORE_THE_CALL and not figures.p99_ms and not figures.share):
            continue
        by_quantile = {"p50": figures.p50_ms, "p95": figures.p95_ms, "p99": figures.p99_ms}
        rows.append(
            {
                "name": name,
                "known": report.known(name),
                "means": stage_style(name).means,
                "figures": [{"value": by_quantile[q], "current": q == question.quantile} for q in QUANTILES],
                "share": figures.share,
                "above": figures.share_above_median,
                "meter": round(100 * min(1.0, max(0.0, figures.share_above_median)), 1),
            }
        )
    return rows
