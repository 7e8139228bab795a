"""The page of batches: how far each is, forms that cancel one or run its failed lines again, and how many jobs wait."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RUN_BATCHES
from controlplane.dashboard.views.common import back, list_filters, list_links, page
from controlplane.lane import report
from controlplane.lane.core import states
from controlplane.lane.models import Batch
from controlplane.lane.store import batches as stored

PAGE_ROWS = 50
LOOKS = {
    states.VALIDATING: ("◔", "", "being checked"),
    states.IN_PROGRESS: ("◐", "", "running"),
    states.FINALIZING: ("◕", "", "files are written"),
    states.CANCELLING: ("◕", "muted", "being cancelled"),
    states.COMPLETED: ("✓", "good", "completed"),
    states.FAILED: ("✕", "bad", "failed its check"),
    states.EXPIRED: ("✕", "bad", "expired"),
    states.CANCELLED: ("◼", "muted", "cancelled"),
}
"""Icon, colour class and words of a status."""
CHOICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all", ()),
    ("open", states.OPEN),
    ("completed", (states.COMPLETED,)),
    ("not completed", (states.FAILED, states.EXPIRED, states.CANCELLED)),
)


@page
def batches(request: HttpRequest) -> HttpResponse:
    """`tenant` and `status`, each repeatable; `before` is where a page begins."""
    wanted, before = list_filters(request, report.FILTERS)
    now = timezone.now()
    rows, next_before = report.listed(wanted, before, PAGE_ROWS, now)
    context = {
        "rows": [_row(row, now) for row in rows],
        "tenants": wanted["tenant"],
        "jobs": [_jobs(it, now) for it in report.jobs(wanted["tenant"])] if before is None else [],
        **list_links(wanted, "status", CHOICES, before, next_before),
        "next": request.get_full_path(),
    }
    return render(request, "dashboard/batches.html", context)


@require_POST
def cancel_batch(request: HttpRequest, name: str) -> HttpResponse:
    batch = rights.row_for(request.user, RUN_BATCHES, Batch, name=name, kind=states.BATCH)
    try:
        stored.cancel(batch.tenant, name)
    except stored.ConflictError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{name} of {batch.tenant} is being cancelled. It keeps the results that it has.")
    return back(request, reverse("batches"))


@require_POST
def retry_batch(request: HttpRequest, name: str) -> HttpResponse:
    batch = rights.row_for(request.user, RUN_BATCHES, Batch, name=name, kind=states.BATCH)
    try:
        again = stored.retry(batch)
    except stored.ConflictError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, f"{again.name} runs the {batch.failed} failed lines of {name} again, for {batch.tenant}."
        )
    return back(request, reverse("batches"))


def _jobs(it: report.JobsOfTenant, now: Any) -> dict[str, Any]:
    age_s = None if it.oldest_queued_at is None else (now - it.oldest_queued_at).total_seconds()
    return {"of": it, "counts": list(it.counts.values()), "oldest_s": age_s}


def _row(row: report.Standing, now: Any) -> dict[str, Any]:
    batch = row.batch
    return {
        "batch": batch,
        "look": LOOKS[batch.status],
        "standing": row,
        "percent": None if row.share is None else int(100 * row.share),
        "done": batch.completed + batch.failed,
        "left_s": (row.ends_at - now).total_seconds() if row.ends_at else None,
        "late": row.ends_at is not None and row.ends_at > batch.expires_at,
        "errors": sorted(row.errors_by_kind.items(), key=lambda it: -it[1]),
        "may_cancel": batch.status in (states.VALIDATING, states.IN_PROGRESS),
        "may_retry": batch.status in states.ENDED and bool(batch.error_file_id),
        "problem": batch.problems[0] if batch.problems else None,
    }
