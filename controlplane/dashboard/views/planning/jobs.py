"""Jobs of planners: a panel that renews itself while a job runs, and forms that start and cancel one."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_JOBS
from controlplane.dashboard.views.common import back
from controlplane.planning import jobs
from controlplane.planning.models import PlanJob

SHOWN = 5
BY_HAND = ("refresh", "measure")
"""Kinds of jobs that people start."""
LOOKS = {
    PlanJob.State.QUEUED: ("○", "muted"),
    PlanJob.State.RUNNING: ("◐", ""),
    PlanJob.State.DONE: ("✓", "good"),
    PlanJob.State.FAILED: ("✕", "bad"),
    PlanJob.State.CANCELLED: ("◼", "muted"),
}


@require_safe
def planning_jobs(request: HttpRequest) -> HttpResponse:
    """The panel. `?open=` names the jobs that were open when it was last shown: where one has ended, the page is renewed."""
    context = jobs_context(request)
    watched = {number for number in request.GET.get("open", "").split(",") if number.isascii() and number.isdigit()}
    response = render(request, "dashboard/planning/_jobs.html", context)
    response["Cache-Control"] = "no-store"
    if watched - set(context["jobs"]["open"].split(",")):
        response["HX-Trigger"] = "job-ended"
    return response


@require_POST
def start_planning_job(request: HttpRequest) -> HttpResponse:
    rights.require(request.user, RUN_JOBS)
    kind = request.POST.get("kind", "")
    if kind in BY_HAND:
        jobs.start(kind, author=request.user.get_username())
    else:
        messages.error(request, f"{kind[:40]!r} is no job that can be started here: use {' or '.join(BY_HAND)}.")
    return back(request, reverse("planning"))


@require_POST
def cancel_planning_job(request: HttpRequest, number: int) -> HttpResponse:
    rights.require(request.user, RUN_JOBS)
    jobs.cancel(get_object_or_404(PlanJob, pk=number))
    return back(request, reverse("planning"))


def jobs_context(request: HttpRequest) -> dict[str, Any]:
    """The newest jobs, and what the reader may do with them."""
    newest = list(PlanJob.objects.all()[:SHOWN])
    return {
        "jobs": {
            "rows": [job_row(job) for job in newest],
            "open": ",".join(str(job.pk) for job in newest if not job.ended),
            "next": request.htmx.current_url_abs_path or request.get_full_path(),  # type: ignore[attr-defined]
        }
    }


def job_row(job: PlanJob) -> dict[str, Any]:
    icon, tone = LOOKS[PlanJob.State(job.state)]
    end = job.ended_at or timezone.now()
    return {
        "job": job,
        "icon": icon,
        "tone": tone,
        "percent": None if job.share is None else round(100 * job.share),
        "took_s": (end - job.started_at).total_seconds() if job.started_at else None,
        "note": str(job.result.get("note", "")) if job.ended else job.note,
        "age_s": (timezone.now() - job.created_at).total_seconds(),
    }
