"""The overview: is everything up, is it busy, is it slow; each number leads to the page that explains it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.dashboard import links
from controlplane.dashboard.figures.latency import grid
from controlplane.dashboard.figures.spark import spark
from controlplane.dashboard.units import count, ms, rate, share
from controlplane.dashboard.views.common import ask, freshness_context, is_fragment, page
from controlplane.telemetry.ask import answers
from controlplane.telemetry.ask.question import Question
from controlplane.telemetry.ask.timerange import SECOND_NS, step_ns
from controlplane.telemetry.store import StoreUnavailable
from controlplane.telemetry.store.types import Health, LatencyPoint, LatencyReport

POINTS = 30


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Shows the components even while the store is away: then most of all."""
    question, now_ns = ask(request)
    context: dict[str, Any] = {"question": question, "numbers": [], "away": False, "newest_ms": None}
    try:
        step = step_ns(question.range.window, POINTS)
        report = answers.report(question)
        context["numbers"] = numbers(question, report, answers.series(question, step), answers.health(question.range.window, "cache"), step)
        context |= freshness_context(question, report.newest_ns or answers.newest_ns(), now_ns)
    except StoreUnavailable:
        context["away"] = True
    name = "dashboard/overview.html#data" if is_fragment(request) else "dashboard/overview.html"
    return render(request, name, context)


def numbers(
    question: Question, report: LatencyReport, points: Sequence[LatencyPoint], by_cache: Mapping[str, Health], step: int
) -> list[dict[str, Any]]:
    """The headline numbers of the range with their shape over time."""
    window = question.range.window
    by_start = {point.start_ns: point for point in points}
    column = [by_start.get(start) for start in grid(window.from_ns, window.to_ns, step)]
    frequent = max(report.ttft_ms, key=lambda name: report.ttft_count.get(name, 0), default="")
    hits = sum(by_cache[value].requests for value in ("hit", "coalesced") if value in by_cache)
    asked = sum(health.requests for value, health in by_cache.items() if value)
    latency = links.latency(question)
    return [
        {
            "label": "requests",
            "value": rate(report.requests * SECOND_NS / question.range.length_ns),
            "note": count(report.requests),
            "spark": spark([point.requests if point else 0 for point in column]),
            "href": latency,
        },
        {
            "label": "not ok",
            "value": share(report.errors / report.requests) if report.requests else "–",
            "note": count(report.errors),
            "bad": bool(report.errors),
            "spark": spark([point.errors / point.requests if point else None for point in column]),
            "href": links.requests(question.but("status", "error", "rejected")),
        },
        {
            "label": "E2E p95",
            "value": ms(report.e2e_ms.p95 if report.e2e_ms else None),
            "note": f"p50 {ms(report.e2e_ms.p50)}" if report.e2e_ms else "",
            "spark": spark([point.e2e_ms.p95 if point else None for point in column]),
            "href": latency,
        },
        {
            "label": f"TTFT p95 ({frequent})" if frequent else "TTFT p95",
            "value": ms(report.ttft_ms[frequent].p95 if frequent else None),
            "note": f"p50 {ms(report.ttft_ms[frequent].p50)}" if frequent else "",
            "spark": spark([point.ttft_ms[frequent].p95 if point and frequent in point.ttft_ms else None for point in column]),
            "href": latency,
        },
        {
            "label": "answered from cache",
            "value": share(hits / asked) if asked else "–",
            "note": count(hits),
            "spark": "",
            "href": links.latency(question.but("cache", "hit", "coalesced")),
        },
    ]
