from django.urls import path

from controlplane.dashboard.views import batches, incidents, silences
from controlplane.dashboard.views.administrators.audit import audit
from controlplane.dashboard.views.administrators.connections import connections
from controlplane.dashboard.views.cache import cache
from controlplane.dashboard.views.deliveries import deliveries
from controlplane.dashboard.views.entry.begin import begin
from controlplane.dashboard.views.entry.shared import share, shared
from controlplane.dashboard.views.explain import causes, latency_explain
from controlplane.dashboard.views.fleet import changes as fleet_changes
from controlplane.dashboard.views.fleet.tenants import tenant, tenants
from controlplane.dashboard.views.latency import latency, latency_table
from controlplane.dashboard.views.live import live
from controlplane.dashboard.views.navigation.quick import quick
from controlplane.dashboard.views.navigation.saved_views import remove_view, save_view
from controlplane.dashboard.views.navigation.zone import keep
from controlplane.dashboard.views.objective_burned import objective_burned
from controlplane.dashboard.views.objective_preview import objective_preview
from controlplane.dashboard.views.objectives import objective, objectives
from controlplane.dashboard.views.overview import overview
from controlplane.dashboard.views.planning import jobs as planning_jobs
from controlplane.dashboard.views.planning.forecasts import forecasts
from controlplane.dashboard.views.planning.plan import plan
from controlplane.dashboard.views.planning.what_if import what_if
from controlplane.dashboard.views.planning.worksheet import planning_worksheet
from controlplane.dashboard.views.policies.decision import decision, decision_replay
from controlplane.dashboard.views.policies.decisions import decisions
from controlplane.dashboard.views.policies.overview import policies
from controlplane.dashboard.views.policies.pauses import approve_override, end_pause, pauses
from controlplane.dashboard.views.policies.policy import policy, take_step
from controlplane.dashboard.views.requests import requests
from controlplane.dashboard.views.review import review, review_markdown
from controlplane.dashboard.views.service_map import service_map
from controlplane.dashboard.views.signals import signals
from controlplane.dashboard.views.traces import trace

urlpatterns = [
    path("", overview, name="overview"),
    path("begin", begin, name="begin"),
    path("zone", keep, name="zone"),
    path("latency", latency, name="latency"),
    path("latency/explain", latency_explain, name="latency-explain"),
    path("latency/table", latency_table, name="latency-table"),
    path("map", service_map, name="map"),
    path("cache", cache, name="cache"),
    path("causes", causes, name="causes"),
    path("requests", requests, name="requests"),
    path("signals", signals, name="signals"),
    path("traces/<str:trace_id>", trace, name="trace"),
    path("objectives", objectives, name="objectives"),
    path("objectives/preview", objective_preview, name="objective-preview"),
    path("objectives/<str:slug>", objective, name="objective"),
    path("objectives/<str:slug>/burned", objective_burned, name="objective-burned"),
    path("incidents", incidents.incidents, name="incidents"),
    path("incidents/review", review, name="review"),
    path("incidents/review.md", review_markdown, name="review-markdown"),
    path("incidents/<int:number>", incidents.incident, name="incident"),
    path("incidents/<int:number>.md", incidents.incident_markdown, name="incident-markdown"),
    path("incidents/<int:number>/acknowledge", incidents.acknowledge, name="incident-acknowledge"),
    path("incidents/<int:number>/resolve", incidents.resolve, name="incident-resolve"),
    path("incidents/<int:number>/reopen", incidents.reopen, name="incident-reopen"),
    path("incidents/<int:number>/note", incidents.note, name="incident-note"),
    path("incidents/<int:number>/step", incidents.step, name="incident-step"),
    path("planning", forecasts, name="planning"),
    path("planning/plan", plan, name="planning-plan"),
    path("planning/what-if", what_if, name="planning-what-if"),
    path("planning/worksheet", planning_worksheet, name="planning-worksheet"),
    path("planning/jobs", planning_jobs.planning_jobs, name="planning-jobs"),
    path("planning/jobs/start", planning_jobs.start_planning_job, name="planning-jobs-start"),
    path("planning/jobs/<int:number>/cancel", planning_jobs.cancel_planning_job, name="planning-job-cancel"),
    path("policies", policies, name="policies"),
    path("policies/<str:name>", policy, name="policy"),
    path("policies/<str:name>/<int:number>/<str:step>", take_step, name="policy-step"),
    path("pauses", pauses, name="pauses"),
    path("pauses/override/<int:number>/approve", approve_override, name="override-approve"),
    path("pauses/<str:what>/<int:number>/end", end_pause, name="pause-end"),
    path("decisions", decisions, name="decisions"),
    path("decisions/<str:key>", decision, name="decision"),
    path("decisions/<str:key>/replay", decision_replay, name="decision-replay"),
    path("changes", fleet_changes.changes, name="fleet-changes"),
    path("changes/<int:number>", fleet_changes.change, name="fleet-change"),
    path("changes/<int:number>/bring-back", fleet_changes.bring_back, name="fleet-bring-back"),
    path("changes/proposals/<int:number>", fleet_changes.proposal, name="fleet-proposal"),
    path("changes/proposals/<int:number>/<str:step>", fleet_changes.take_proposal_step, name="fleet-proposal-step"),
    path("deliveries", deliveries, name="deliveries"),
    path("audit", audit, name="audit"),
    path("connections", connections, name="connections"),
    path("batches", batches.batches, name="batches"),
    path("batches/<str:name>/cancel", batches.cancel_batch, name="batch-cancel"),
    path("batches/<str:name>/retry", batches.retry_batch, name="batch-retry"),
    path("tenants", tenants, name="tenants"),
    path("tenants/<str:name>", tenant, name="tenant"),
    path("silences", silences.silences, name="silences"),
    path("silences/<int:number>/end", silences.end_silence, name="silence-end"),
    path("views", save_view, name="save-view"),
    path("views/<int:number>/remove", remove_view, name="remove-view"),
    path("quick", quick, name="quick"),
    path("share", share, name="share"),
    path("shared/<str:text>", shared, name="shared"),
    path("live", live, name="live"),
]
