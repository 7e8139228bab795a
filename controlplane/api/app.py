"""The REST API: its endpoints, its authentication and its documents, which load from this server."""

from ninja.security import django_auth

from controlplane.accounts.bearer import Bearer
from controlplane.api import problems
from controlplane.api.docs_page import DocsPage
from controlplane.api.document import DocumentedAPI
from controlplane.api.endpoints import (
    audit,
    batches,
    changes,
    deliveries,
    explain,
    export,
    forecasts,
    incidents,
    latency,
    maintenance,
    objectives,
    openslo,
    plan,
    plan_jobs,
    preview,
    requests,
    signals,
    silences,
    stack,
    traces,
)
from controlplane.api.endpoints.fleet import cache, capacity, documents, tenants
from controlplane.api.endpoints.policies import decisions, files, pauses, revisions, scores

api = DocumentedAPI(
    title="Weir",
    version="1",
    description="Where each millisecond of LLM requests goes. Send `Authorization: Bearer TOKEN`, or be logged in.",
    auth=[Bearer(), django_auth],
    docs=DocsPage(),
    docs_url="/docs",
    openapi_url="/openapi.json",
    urls_namespace="api",
)
problems.register(api)
# Before the other paths under /objectives/.
api.add_router("", openslo.router)
api.add_router("", preview.router)
api.add_router("/latency", latency.router)
api.add_router("/explain", explain.router)
api.add_router("/requests", requests.router)
api.add_router("", export.router)
api.add_router("/traces", traces.router)
api.add_router("", signals.router)
api.add_router("/stack", stack.router)
api.add_router("/objectives", objectives.router)
api.add_router("/maintenance", maintenance.router)
api.add_router("/incidents", incidents.router)
api.add_router("/silences", silences.router)
api.add_router("/changes", changes.router)
api.add_router("/audit", audit.router)
api.add_router("/cache", cache.router)
api.add_router("", documents.router)
api.add_router("", deliveries.router)
api.add_router("", batches.router)
api.add_router("/tenants", tenants.router)
api.add_router("/planning", forecasts.router)
api.add_router("/planning", plan.router)
api.add_router("/planning", plan_jobs.router)
api.add_router("/planning", capacity.router)
api.add_router("", files.router)
api.add_router("", revisions.router)
api.add_router("", pauses.router)
api.add_router("", decisions.router)
api.add_router("", scores.router)
