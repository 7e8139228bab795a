"""What the people of a tenant see of it, and the list of tenants."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SEE_TENANT
from controlplane.dashboard import vendor
from controlplane.dashboard.core.figures.latency import latency_figure
from controlplane.dashboard.core.palette import BANDS, stage_style
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.failures import words
from controlplane.dashboard.views.batches import LOOKS
from controlplane.dashboard.views.common import ledger_freshness, page, presets, question_of
from controlplane.fleet.models import Tenant
from controlplane.telemetry.core.query_types import LatencyReport
from controlplane.telemetry.query.core.question import QUANTILES
from controlplane.tenants import figures


def tenants(request: HttpRequest) -> HttpResponse:
    """Those whose figures one may see; of a single one, its page."""
    names = Tenant.objects.values_list("name", flat=True)
    seen = [name for name in names if rights.may(request.user, SEE_TENANT, figures.owned(name))]
    return (
        redirect("tenant", seen[0]) if len(seen) == 1 else render(request, "dashboard/tenants.html", {"tenants": seen})
    )


@page
def tenant(request: HttpRequest, name: str) -> HttpResponse:
    rights.require(request.user, SEE_TENANT, figures.owned(name))
    get_object_or_404(Tenant, name=name)
    question, now_ns = question_of(request)
    question = replace(question, filters={})
    seen = figures.figures(name, question, timezone.now(), over_time=True)
    context = {
        "name": name,
        "seen": seen,
        "range": question.range,
        "path": request.path,
        "presets": presets(question, lambda each: link_query(each.pairs()), ("15m", "1h", "6h", "24h", "7d", "30d")),
        "quantiles": QUANTILES,
        "stages": _stages(seen.report),
        "figure": latency_figure(seen.points, seen.question, seen.step_ns) if seen.points else None,
        "plotly": vendor.plotly(),
        "failures": [{"words": words(each), "of": each} for each in seen.failures],
        "cost": sum(each.usd for each in seen.costs),
        "batches": [{"of": each, "look": LOOKS[each.batch.status]} for each in seen.batches],
        "range_query": question.query(),
        **ledger_freshness(seen.question, seen.report.newest_ns, now_ns),
    }
    return render(request, "dashboard/tenant.html", context)


def _stages(report: LatencyReport) -> list[dict[str, Any]]:
    """Those in which its requests spent time."""
    return [
        {"name": name, "means": stage_style(name).means, "known": report.known(name), "of": report.stages[name]}
        for name in BANDS
        if name in report.stages and (report.stages[name].share or report.stages[name].p99_ms)
    ]
