"""The latency page's panel "What is different about the slow ones?", a fragment that is requested after the figures."""

import time
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links
from controlplane.dashboard.core.screen import Screen, latency_screen
from controlplane.dashboard.core.zone import clock, said
from controlplane.dashboard.history import stored_since
from controlplane.dashboard.views.common import page
from controlplane.serving_stack import pools_served
from controlplane.telemetry.core.query_types import Region
from controlplane.telemetry.explain.causes import RULES
from controlplane.telemetry.explain.causes.cause import Evidence
from controlplane.telemetry.explain.difference import Explanation, Finding, nothing
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.causes import Causes, causes_of
from controlplane.telemetry.query.core.question import DIMENSIONS
from controlplane.telemetry.query.core.slow import Slow, parse_slow
from controlplane.telemetry.query.core.timerange import fixed
from controlplane.telemetry.query.remedies import component_remedies, remedies

MAX_FINDINGS = 6
MAX_CAUSES = 4
MAX_STAGES = 3
MIN_SHARE = 0.05  # of the difference: a stage below it is not worth a word
NAMES = {"prompt_bucket": "prompt tokens"}


@page
def latency_explain(request: HttpRequest) -> HttpResponse:
    """The slow ones are those above the page's quantile, or of the region in its URL."""
    parameters, now_ns = dict(request.GET.lists()), time.time_ns()
    screen = latency_screen(reverse("latency"), parameters, now_ns)
    question = screen.question
    slow = parse_slow(parameters, now_ns, question.quantile)
    explained = answers.submit_query(answers.explanation, question, slow, MAX_FINDINGS)
    causes = causes_of(question, slow, pools_served(), sample=True)
    region, explanation = explained.result()
    context = explain_context(screen, slow, region, explanation) | causes_context(screen, causes)
    context["stored_since"] = stored_since(region.window or question.range.window)
    return render(request, "dashboard/_explain.html", context)


def causes(request: HttpRequest) -> HttpResponse:
    """The page of the known causes, with their remedies."""
    context = {"remedies": remedies().values(), "components": component_remedies().values()}
    return render(request, "dashboard/causes.html", context)


def causes_context(screen: Screen, causes: Causes) -> dict[str, Any]:
    """The known causes that the figures show, and the figures that are missing."""
    return {
        "causes": [
            {
                "named": each,
                "cost_ns": round(each.cost_ms * 1e6),
                "evidence": [evidence(figure) for figure in each.cause.evidence],
                "href": _filtered(screen, "pool", each.pool),
                "do_href": f"{reverse('causes')}#{each.cause.name}",
            }
            for each in causes.named[:MAX_CAUSES]
        ],
        "causes_pools": causes.pools,
        "causes_one_in": causes.one_in,
        "unmeasured": causes.unmeasured,
        "rules": len(RULES),
    }


def evidence(figure: Evidence) -> dict[str, str]:
    """A figure with its unit, beside its expected value."""
    expected = "" if figure.expected is None else PAGE.figure(figure.expected, figure.unit)
    return {"what": figure.what, "value": PAGE.figure(figure.value, figure.unit), "expected": expected}


def explain_context(screen: Screen, slow: Slow, region: Region, explanation: Explanation) -> dict[str, Any]:
    """Parts of sentences, from the store's answer."""
    during = screen.question.with_range(fixed(region.window)) if region.window else screen.question
    chosen, bounds = during.with_filter("status", "ok"), links.lengths(region.min_e2e_ns, region.max_e2e_ns)
    return {
        "which": which(slow, region),
        "of_region": slow.region is not None,
        "whole_href": f"{screen.path}?{replace(screen, region=()).query()}",
        "requests_href": links.requests(chosen, order="slowest", **bounds),
        "explanation": explanation,
        "slower": explanation.difference_ns >= 0,
        "difference_ns": round(abs(explanation.difference_ns)),
        "stages": [stage for stage in explanation.stages[:MAX_STAGES] if stage.share >= MIN_SHARE],
        "findings": [finding(screen, each) for each in explanation.findings],
        "nothing": nothing(explanation),
    }


def which(slow: Slow, region: Region) -> str:
    """The chosen requests in words: `above p95 (1.93 s)`, `from 0.50 s to 1.00 s, entered 14:05:00 to 14:06:00 UTC`."""
    if slow.region is None:
        return f"above {slow.above}" + (f" ({PAGE.ns(region.min_e2e_ns)})" if region.min_e2e_ns else "")
    if region.max_e2e_ns is not None:
        parts = [f"of {PAGE.ns(region.min_e2e_ns)} to {PAGE.ns(region.max_e2e_ns)}"]
    else:
        parts = [f"of at least {PAGE.ns(region.min_e2e_ns)}"] if region.min_e2e_ns else []
    if region.window is not None:
        parts.append(f"entered {clock(region.window.from_ns)} to {clock(region.window.to_ns)} {said()}")
    return ", ".join(parts) or "of any length"


def finding(screen: Screen, difference: Finding) -> dict[str, Any]:
    """A finding with its link."""
    return {
        "finding": difference,
        "name": NAMES.get(difference.dimension, difference.dimension),
        "value": difference.value or "unknown",
        "href": _filtered(screen, difference.dimension, difference.value),
        "same": [f"{NAMES.get(dimension, dimension)} {value or 'unknown'}" for dimension, value in difference.same_as],
        "traces": [{"id": trace_id, "href": links.trace(trace_id)} for trace_id in difference.exemplars],
    }


def _filtered(screen: Screen, dimension: str, value: str) -> str:
    named = next((name for name in DIMENSIONS if name == dimension), None)
    return f"{screen.path}?{screen.query(screen.question.with_filter(named, value))}" if named else ""
