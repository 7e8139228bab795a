"""What uses an objective's error budget: the stages on which bad requests spent more, and the segments they are in."""

import time
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from controlplane.dashboard import links
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views.common import page
from controlplane.incidents.attribution import questions
from controlplane.slo import queries
from controlplane.slo.core import words
from controlplane.slo.core.count_plan import cut
from controlplane.slo.models import StoredObjective
from controlplane.slo.queries import ObjectiveStatus
from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.query_types import Dimension, Filters, Window
from controlplane.telemetry.explain.difference import Split, explain
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import choice
from controlplane.telemetry.query.core.question import Question, parse

OVER = {"1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
MAX_SEGMENTS = 14
MAX_TRACES = 8


@page
def objective_burned(request: HttpRequest, slug: str) -> HttpResponse:
    """`?over=`: of how long. `?of=`: of which scope."""
    row = get_object_or_404(StoredObjective.objects.select_related("owner"), slug=slug)
    over = choice(dict(request.GET.lists()), "over", tuple(OVER), "24h")
    statuses = queries.statuses(row, row.states.all(), queries.present())
    shown = next((status for status in statuses if status.key == request.GET.get("of")), statuses[0])
    objective = row.to_objective()
    judged = cut(objective.indicator)
    context: dict[str, Any] = {
        "over": over,
        "choices": [
            {
                "text": name,
                "current": name == over,
                "href": f"{reverse('objective-burned', args=[slug])}?{link_query([('of', shown.key), ('over', name)])}",
            }
            for name in OVER
        ],
        "indicator": words.indicator(objective.indicator),
    }
    if judged is not None:
        context |= burned(shown, judged, over)
    return render(request, "dashboard/_objective_burned.html", context | {"is_known": judged is not None})


def burned(shown: ObjectiveStatus, judged: Cut, over: str) -> dict[str, Any]:
    now_ns = time.time_ns()
    window = Window(now_ns - OVER[over] * 10**9, now_ns)
    filters = cast(Filters, {name: (value,) for name, value in shown.scope.items()})
    dimensions = [name for name in questions.SIDES if name not in shown.scope]
    total, split = answers.store().burned.splits(window, filters, judged, dimensions)
    explanation = explain(total, split, MAX_SEGMENTS)
    about = parse({"from": [f"now-{over}"], **{name: [value] for name, value in shown.scope.items()}}, now_ns)
    return {
        "bad": total.chosen.requests,
        "total": total.chosen.requests + total.rest.requests,
        "stages": questions.stages(explanation, total),
        "segments": segments(total, split, about),
        "traces": [
            {"id": trace, "href": links.trace(trace)}
            for trace in answers.store().burned.traces(window, filters, judged, MAX_TRACES)
        ]
        if total.chosen.requests
        else [],
        "requests_href": links.requests(bad(about, judged), **more(judged)),
    }


def segments(total: Split, split: dict[str, dict[str, Split]], about: Question) -> list[dict[str, Any]]:
    """The values with most bad requests that are worse than the whole, or hold nearly all of it; the most significant first."""
    bad_requests = total.chosen.requests
    requests = bad_requests + total.rest.requests
    rows = []
    for dimension, values in split.items():
        known = {value: sides for value, sides in values.items() if value}
        for value, sides in known.items():
            bad_here, here = sides.chosen.requests, sides.chosen.requests + sides.rest.requests
            if not bad_here or len(known) < 2:
                continue
            share, usual = bad_here / bad_requests, here / requests
            rows.append(
                {
                    "dimension": dimension.replace("_", " "),
                    "value": value,
                    "bad": bad_here,
                    "total": here,
                    "share": share,
                    "usual": usual,
                    "ratio": bad_here / here,
                    "excess": share - usual,
                    "bar": share * 100,
                    "href": links.latency(about.with_filter(cast(Dimension, dimension), value)),
                }
            )
    return sorted(rows, key=lambda row: (-float(str(row["excess"])), -int(str(row["bad"]))))[:MAX_SEGMENTS]


def bad(about: Question, judged: Cut) -> Question:
    return about.with_filter("status", "error", "rejected") if judged.measure == "availability" else about


def more(judged: Cut) -> dict[str, str]:
    return {"min_ms": str(int(judged.thresholds[0]))} if judged.measure == "e2e" else {}
