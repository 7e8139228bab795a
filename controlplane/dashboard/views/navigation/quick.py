"""Ctrl+K: pages, models, pools, objectives, incidents, policies, metrics, settings and traces by any of their names."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from controlplane.accounts.models import SavedView
from controlplane.dashboard import links
from controlplane.dashboard.core.places import Place, meanings, places_of
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.views.common import page, question_of
from controlplane.dashboard.views.traces import TRACE_ID
from controlplane.incidents.models import Incident
from controlplane.policy.models import PolicyRevision
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Dimension, Window
from controlplane.telemetry.query import answers, metric_answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.store import StoreUnavailableError

DAY_NS = 86_400 * 1_000_000_000
SOUGHT: tuple[Dimension, ...] = ("model", "pool", "replica", "tenant", "tier")
MAX_INCIDENTS = 200
PAGES = (
    ("Latency", "latency", "slow stages ttft itl e2e p95 p99 queue quantile compare yesterday"),
    ("Requests, newest or slowest first", "requests", "traces spans logs failed errors list"),
    ("Service map", "map", "topology dependencies edges client gateway cache pools replicas clusters"),
    ("Cache: hits, and what they saved", "cache", "similar requests semantic evidence look-ups savings purge"),
    ("Overview", "overview", "home up down health components"),
    ("Objectives", "objectives", "slo sli error budget burn rate"),
    ("Incidents", "incidents", "alerts pages on call pager"),
    ("Incidents: handover and weekly review", "review", "shift mtta mttr report noisiest"),
    ("Silences", "silences", "mute maintenance snooze"),
    ("Deliveries: who was notified", "deliveries", "notifications pagerduty slack webhook"),
    ("Batches: work that can wait", "batches", "jobs files lines lane progress cancel retry"),
    ("Audit: who changed what", "audit", "history log changes refused tokens log-ins people"),
    ("Changes of the fleet, and the way back", "fleet-changes", "revisions roll back undo history diff proposals"),
    ("Connections: what is in the clear", "connections", "tls certificates encrypted plain text https security"),
    ("Signals: targets and metrics", "signals", "prometheus exporters scrape gauges counters"),
    ("Planning: forecasts of demand", "planning", "forecast capacity traffic to come"),
    ("Planning: replicas by hour", "planning-plan", "gpus cost price next week capacity"),
    ("Planning: what if", "planning-what-if", "scenario peak launch"),
    ("Planning: the quarter's worksheet", "planning-worksheet", "budget quarter"),
    ("Policies", "policies", "autoscaling scale ladder degradation canary routes"),
    ("Decisions", "decisions", "why did it scale actions"),
    ("Pauses and overrides", "pauses", "freeze stop autoscaling"),
    ("Known causes, and what to do", "causes", "runbook remedy"),
    ("API documentation", "api:openapi-view", "rest openapi"),
)


@page
def quick(request: HttpRequest) -> HttpResponse:
    """`?text=`: what matches. Without the store, only what is in the database matches."""
    text = request.GET.get("text", "").strip()[:200]
    if TRACE_ID.fullmatch(text.lower()):
        places = [Place(text.lower(), "trace", links.trace(text.lower()))]
    else:
        question, now_ns = question_of(request)
        saved = [Place(view.name, "view", view.path, f"saved {view.team}") for view in SavedView.seen_by(request.user)]
        pages = [Place(text, "page", reverse(view), names) for text, view, names in PAGES]
        places = places_of(text, [*saved, *pages, *_stored(), *_settings(request), *_served(question, now_ns, text)])
    return render(request, "dashboard/_quick.html", {"places": places, "text": text})


def _stored() -> list[Place]:
    objectives = StoredObjective.objects.values_list("slug", "name", "measure")
    incidents = Incident.objects.exclude(status=Incident.Status.RESOLVED)[:MAX_INCIDENTS]
    return [
        *(
            Place(name, "objective", reverse("objective", args=[slug]), f"{slug} {measure}")
            for slug, name, measure in objectives
        ),
        *(
            Place(f"{each.objective_name} #{each.pk}", "incident", reverse("incident", args=[each.pk]), each.alert_key)
            for each in incidents
        ),
        *(
            Place(name, "policy", reverse("policy", args=[name]))
            for name in set(PolicyRevision.objects.values_list("name", flat=True))
        ),
    ]


def _settings(request: HttpRequest) -> list[Place]:
    """What the reader may see in the admin."""
    return [
        Place(f"{app['name']}: {model['name']}", "setting", model["admin_url"], "admin edit")
        for app in admin.site.get_app_list(request)
        for model in app["models"]
        if model["admin_url"]
    ]


def _served(question: Question, now_ns: int, text: str) -> list[Place]:
    try:
        values = answers.values(Window(now_ns - DAY_NS, now_ns), SOUGHT)
        named = {each.metric for meant in meanings(text) for each in metric_answers.metrics(meant)} if text else set()
    except StoreUnavailableError:
        return []
    ends = [("from", question.range.from_text), ("to", question.range.to_text)]
    return [
        *(
            Place(value, dimension, links.latency(question.with_filter(dimension, value)))
            for dimension, names in values.items()
            for value in names
        ),
        *(
            Place(name, "metric", f"{reverse('signals')}?{link_query([*ends, ('metric', name)])}")
            for name in sorted(named)
        ),
    ]
