from django.urls import path

from controlplane.dashboard.views.causes import causes
from controlplane.dashboard.views.explain import latency_explain
from controlplane.dashboard.views.incidents import incident
from controlplane.dashboard.views.latency import latency, latency_table
from controlplane.dashboard.views.live import live
from controlplane.dashboard.views.overview import overview
from controlplane.dashboard.views.quick import quick
from controlplane.dashboard.views.requests import requests
from controlplane.dashboard.views.signals import signals
from controlplane.dashboard.views.traces import trace

urlpatterns = [
    path("", overview, name="overview"),
    path("latency", latency, name="latency"),
    path("latency/explain", latency_explain, name="latency-explain"),
    path("latency/table", latency_table, name="latency-table"),
    path("causes", causes, name="causes"),
    path("requests", requests, name="requests"),
    path("signals", signals, name="signals"),
    path("traces/<str:trace_id>", trace, name="trace"),
    path("incidents/<int:number>", incident, name="incident"),
    path("quick", quick, name="quick"),
    path("live", live, name="live"),
]
