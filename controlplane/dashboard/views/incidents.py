"""Incidents: the list, one, one as Markdown, and the actions on them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import RESPOND
from controlplane.dashboard.core import zone
from controlplane.dashboard.incident_screen import detail, grouped, summed
from controlplane.dashboard.views.common import back, facet, is_fragment, is_refresh, page
from controlplane.incidents.act import actions
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery.health.heartbeat import judged_at
from controlplane.incidents.report.postmortem import postmortem
from controlplane.slo.models import ObjectiveRevision
from controlplane.slo.queries import JUDGED_FOR

PAGE = 100
UNDO = "undo-"
"""Before an incident's number, the tag of a message that can be undone (`undo_of` of the templates)."""
STATUSES = ("open", "resolved", "all")
FILTERS = ("owner", "severity", "objective", "component", "model")


@page
def incidents(request: HttpRequest) -> HttpResponse:
    """`status` (open by default), and `owner`, `severity`, `objective`, `model`: the URL holds all filters."""
    status, now = request.GET.get("status", "open"), timezone.now()
    chosen = {name: request.GET[name] for name in FILTERS if request.GET.get(name)}
    of_filters = Incident.objects.filter(**_fields(chosen))
    open_ones = of_filters.exclude(status=Incident.Status.RESOLVED)
    if status == "resolved":
        query = of_filters.filter(status=Incident.Status.RESOLVED)
    elif status == "all":
        query = of_filters
    else:
        status, query = "open", open_ones
    shown = Paginator(query, PAGE).get_page(request.GET.get("page"))
    filters_too = is_fragment(request) and not is_refresh(request)
    context = {
        "groups": grouped(list(shown), now),
        "shown": shown,
        "unjudged": unjudged(now),
        "summed": summed(list(open_ones), now),
        "open_in_all": Incident.open_ones().count() if chosen else None,
        "opened": opened(chosen, now),
        "status": status,
        "chosen": chosen,
        "statuses": [
            (status, _query(chosen | ({"status": status} if status != "open" else {}))) for status in STATUSES
        ],
        "facets": facets(chosen),
        "filters_too": filters_too,
        "over": _query(chosen | {"status": "resolved"}),
        "unfiltered": _query({} if status == "open" else {"status": status}) if chosen else "",
        "here": request.get_full_path(),
        "next_page": _query({**chosen, "status": status, "page": str(shown.number + 1)}) if shown.has_next() else "",
    }
    name = "incidents/_incidents.html" if is_fragment(request) else "incidents/incidents.html"
    return render(request, name, context)


def _fields(chosen: dict[str, str]) -> dict[str, str]:
    return {"scope__model" if name == "model" else name: value for name, value in chosen.items()}


def opened(chosen: dict[str, str], now: datetime) -> list[dict[str, Any]]:
    """How many incidents were opened in the last 24 hours, and how many in the same hours of earlier days: pages and all.

    Of days before the first objective nothing is known, and nothing said.
    """
    first = ObjectiveRevision.objects.aggregate(first=Min("at"))["first"]
    if first is None:
        return []
    days = {
        name: Q(opened_at__gt=now - timedelta(days=back + 1), opened_at__lte=now - timedelta(days=back))
        for name, back in (("in the last 24 hours", 0), ("in the 24 hours before", 1), ("in the same a week ago", 7))
        if first <= now - timedelta(days=back + 1)
    } or {f"since {zone.at(first)}, when the first objective was made": Q(opened_at__gte=first)}
    counts: dict[str, int] = Incident.objects.filter(**_fields(chosen)).aggregate(
        **{f"{number}_{kind}": Count("pk", filter=day & only) for number, day in enumerate(days.values())
           for kind, only in (("all", Q()), ("pages", Q(severity="page")))}
    )  # fmt: skip
    return [
        {"day": name, "all": counts[f"{number}_all"], "pages": counts[f"{number}_pages"]}
        for number, name in enumerate(days)
    ]


def unjudged(now: datetime) -> str:
    """A warning if objectives are not evaluated, else empty."""
    if (at := judged_at(now)) is None:
        return "Objectives have not been judged yet."
    if now - at <= JUDGED_FOR:
        return ""
    return f"Objectives have not been judged since {zone.at(at)}: incidents since then are missing."


def facets(chosen: dict[str, str]) -> list[dict[str, Any]]:
    values = {
        "severity": ["page", "ticket"],
        "owner": sorted(set(Incident.objects.exclude(owner="").values_list("owner", flat=True).distinct())),
        "objective": sorted(set(Incident.objects.exclude(objective="").values_list("objective", flat=True).distinct())),
        "component": sorted(set(Incident.objects.exclude(component="").values_list("component", flat=True).distinct())),
        "model": sorted(
            {model for model in Incident.objects.values_list("scope__model", flat=True).distinct() if model}
        ),
    }
    return [facet(name, name, options, [chosen[name]] if name in chosen else []) for name, options in values.items()]


@page
def incident(request: HttpRequest, number: int) -> HttpResponse:
    row = get_object_or_404(Incident, pk=number)
    context = {**detail(row), "here": reverse("incident", args=[number])}
    return render(request, f"incidents/{'_incident' if is_fragment(request) else 'incident'}.html", context)


def incident_markdown(request: HttpRequest, number: int) -> HttpResponse:
    """A draft of a postmortem: what was known, what was done, when and by whom."""
    row = get_object_or_404(Incident, pk=number)
    return HttpResponse(postmortem(row), content_type="text/markdown; charset=utf-8")


@require_POST
def acknowledge(request: HttpRequest, number: int) -> HttpResponse:
    return _done(
        request, rights.row_for(request.user, RESPOND, Incident, pk=number), actions.acknowledge, "acknowledged"
    )


@require_POST
@page
def resolve(request: HttpRequest, number: int) -> HttpResponse:
    """Without `confirmed` in the form, shows a page that asks for it. A browser with scripts asks in a dialog."""
    row = rights.row_for(request.user, RESPOND, Incident, pk=number)
    if not request.POST.get("confirmed"):
        context = {"incident": row, "next": request.POST.get("next", "")}
        return render(request, "incidents/resolve.html", context)
    return _done(request, row, actions.resolve, "resolved", undo=True)


@require_POST
def reopen(request: HttpRequest, number: int) -> HttpResponse:
    row = rights.row_for(request.user, RESPOND, Incident, pk=number)
    why_not = actions.why_not_reopened(row, timezone.now())
    if not why_not and actions.reopen(row.notice_key, request.user.get_username(), timezone.now()):
        messages.success(request, f"#{number} is open again. The next tick sends it, if it still fires.")
    else:
        messages.info(request, f"#{number} was not opened again. {why_not}")
    return back(request, reverse("incident", args=[number]))


@require_POST
def note(request: HttpRequest, number: int) -> HttpResponse:
    row = rights.row_for(request.user, RESPOND, Incident, pk=number)
    actions.note(row.notice_key, request.user.get_username(), timezone.now(), request.POST.get("note", ""))
    return back(request, reverse("incident", args=[number]))


@require_POST
def step(request: HttpRequest, number: int) -> HttpResponse:
    """`number` of a step of the runbook; `open`: it is not done after all."""
    row = rights.row_for(request.user, RESPOND, Incident, pk=number)
    given = request.POST.get("number", "")
    ticked = (
        given.isdecimal()
        and len(given) < 10
        and actions.tick(
            row.notice_key, request.user.get_username(), timezone.now(), int(given), "open" not in request.POST
        )
    )
    if not ticked:
        messages.info(request, "Nothing was ticked: somebody did before, or the runbook has no such step.")
    return back(request, reverse("incident", args=[number]))


def _done(
    request: HttpRequest, row: Incident, change: Callable[..., bool], word: str, undo: bool = False
) -> HttpResponse:
    by, at, said = request.user.get_username(), timezone.now(), request.POST.get("note", "")
    if change(row.notice_key, by, at, said):
        messages.success(request, f"#{row.pk} {word}.", extra_tags=f"{UNDO}{row.pk}" if undo else "")
    else:
        row.refresh_from_db()
        messages.info(request, f"#{row.pk} was {row.status} already.")
    return back(request, reverse("incident", args=[row.pk]))


def _query(pairs: dict[str, str]) -> str:
    return f"?{urlencode(pairs)}" if pairs else "?"
