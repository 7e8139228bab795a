"""Ctrl+K: pages, models, pools and traces by a few letters."""

from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from controlplane.dashboard import links
from controlplane.dashboard.views.common import page, question_of
from controlplane.dashboard.views.traces import TRACE_ID
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Dimension, Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.store import StoreUnavailableError

MOST = 12
DAY_NS = 86_400 * 1_000_000_000
SOUGHT: tuple[Dimension, ...] = ("model", "pool", "replica", "tenant", "tier")


class Place(NamedTuple):
    text: str
    kind: str
    href: str


@page
def quick(request: HttpRequest) -> HttpResponse:
    """`?text=`: what matches. Without the store, only pages match."""
    text = request.GET.get("text", "").strip()[:200]
    question, now_ns = question_of(request)
    try:
        values = answers.values(Window(now_ns - DAY_NS, now_ns), SOUGHT)
    except StoreUnavailableError:
        values = {}
    return render(request, "dashboard/_quick.html", {"places": places(text, question, values), "text": text})


def places(text: str, question: Question, values: dict[Dimension, list[str]]) -> list[Place]:
    """The places that match all words of `text`, the likeliest first."""
    if TRACE_ID.fullmatch(text.lower()):
        return [Place(text.lower(), "trace", links.trace(text.lower()))]
    everywhere = [
        Place("Latency", "page", reverse("latency")),
        Place("Requests, slowest first", "page", reverse("requests")),
        Place("Overview", "page", reverse("overview")),
        Place("Objectives", "page", reverse("objectives")),
        Place("Incidents", "page", reverse("incidents")),
        Place("Silences", "page", reverse("silences")),
        Place("Deliveries: who was notified", "page", reverse("deliveries")),
        Place("Signals: targets and metrics", "page", reverse("signals")),
        Place("Planning: forecasts of demand", "page", reverse("planning")),
        Place("Planning: replicas by hour", "page", reverse("planning-plan")),
        Place("Planning: what if", "page", reverse("planning-what-if")),
        Place("Planning: the quarter's worksheet", "page", reverse("planning-worksheet")),
        Place("Known causes, and what to do", "page", reverse("causes")),
        Place("API documentation", "page", reverse("api:openapi-view")),
    ]
    everywhere += [
        Place(name, "objective", reverse("objective", args=[slug]))
        for slug, name in StoredObjective.objects.values_list("slug", "name")
    ]
    everywhere += [
        Place(value, dimension, links.latency(question.with_filter(dimension, value)))
        for dimension, names in values.items()
        for value in names
    ]
    words = text.lower().split()
    return [place for place in everywhere if all(word in f"{place.text} {place.kind}".lower() for word in words)][:MOST]
