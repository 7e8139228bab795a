"""Objectives with their error budgets and burn rates."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links, vendor
from controlplane.dashboard.changes import changes_in, marked
from controlplane.dashboard.compare import LABELS
from controlplane.dashboard.core.figures.burndown import burndown_figure
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.core.zone import minute
from controlplane.dashboard.views.common import choices, facet, freshness_context, page, render_page
from controlplane.dashboard.views.objective_parts import INCIDENT_STATES, now, over_period, rates
from controlplane.incidents.core import runbook
from controlplane.incidents.core.silences import Subject
from controlplane.incidents.models import Incident
from controlplane.incidents.report.standing import silences_of
from controlplane.slo import queries
from controlplane.slo.core import words
from controlplane.slo.core.burndown import Day, days, range_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import period_at
from controlplane.slo.models import StoredObjective
from controlplane.slo.queries import ObjectiveStatus
from controlplane.slo.replay.burndown import history
from controlplane.slo.replay.counted import two_days
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query.core.parameters import choice
from controlplane.telemetry.query.core.question import UNKNOWN, Question, parse
from controlplane.telemetry.store import StoreUnavailableError

EARLIER = {"yesterday": 1, "last-week": 7}
DAYS = {0: "the last 24 hours", 1: "the 24 hours before", 7: "the same a week ago"}
SHORT = {1: "24 h before", 7: "a week ago"}
MAX_ROWS = 100
SHOWN_STATES = ("firing", "unknown", "quiet", "disabled")


@page
def objectives(request: HttpRequest) -> HttpResponse:
    """`?owner=`, `?model=`, `?state=` choose some; the worst come first. `?compare=` puts the last 24 hours beside an earlier day,
    `?all=1` lists more than the first MAX_ROWS."""
    parameters = dict(request.GET.lists())
    state = choice(parameters, "state", ("", *SHOWN_STATES), "")
    compare = choice(parameters, "compare", ("", *EARLIER), "")
    owner, model = request.GET.get("owner", ""), request.GET.get("model", "")
    every = queries.all_statuses()
    chosen = [
        status
        for status in every
        if state in ("", status.state)
        and owner in ("", _owner(status))
        and model in ("", status.scope.get("model", ""))
    ]
    kept = [("owner", owner), ("model", model), ("state", state)]
    context = {
        **_fresh(),
        **_beside(chosen if "all" in parameters else chosen[:MAX_ROWS], compare),
        "chosen": len(chosen),
        "all_href": link_query([*(pair for pair in (*kept, ("compare", compare)) if pair[1]), ("all", "1")]),
        "comparisons": choices(
            EARLIER,
            compare,
            lambda text: link_query(
                [pair for pair in (*kept, ("compare", "" if text == compare else text)) if pair[1]]
            ),
            LABELS,
        ),
        "total": len(every),
        "facets": [
            _facet("owner", owner, {_owner(status) for status in every}),
            _facet("model", model, {status.scope.get("model", "") for status in every}),
            _facet("state", state, set(SHOWN_STATES)),
        ],
        "path": request.path,
        "filtered": bool(state or owner or model),
        "firing": sum(status.state == "firing" for status in chosen),
        "broken": sum(status.is_broken for status in chosen),
        "unknown": sum(status.state == "unknown" for status in chosen),
        "enabled": sum(status.state != "disabled" for status in chosen),
        "disabled": sum(status.state == "disabled" for status in chosen),
        "judged": sum(status.state in ("firing", "quiet") and not status.is_empty for status in chosen),
        "empty": sum(status.is_empty for status in chosen),
    }
    return render_page(request, "dashboard/objectives.html", context)


@page
def objective(request: HttpRequest, slug: str) -> HttpResponse:
    """`?of=`: the key of the scope that is shown, of one that is split."""
    stored = get_object_or_404(StoredObjective.objects.select_related("owner"), slug=slug)
    statuses = sorted(queries.statuses(stored, stored.states.all(), queries.present()), key=queries.urgency)
    shown = next((status for status in statuses if status.key == request.GET.get("of")), statuses[0])
    defined = _objective(stored)
    context: dict[str, Any] = {
        **_fresh(),
        "shown": row(shown),
        "others": [row(status) for status in statuses]
        if len(statuses) > 1 or (stored.split_by and not shown.is_empty)
        else [],
        "objective": defined,
        "summary": words.summary(defined) if defined else "",
        "verdicts": rates(shown),
        "document": shown.document,
        "revisions": stored.revisions.all()[:12],
        "incident": Incident.objects.filter(alert_key=shown.key).exclude(status=Incident.Status.RESOLVED).first(),
        "incidents": Incident.objects.filter(objective=slug).order_by("-opened_at")[:5],
        "runbook": runbook.blocks(stored.runbook_text),
        "incident_looks": INCIDENT_STATES,
        "silenced": silences_of(
            [
                Subject(slug, stored.owner.name if stored.owner else "", severity, shown.scope, stored.labels or {})
                for severity in ("page", "ticket")
            ],
            timezone.now(),
        ),
        "plotly": vendor.plotly(),
        "burned_path": f"{reverse('objective-burned', args=[slug])}?{link_query([('of', shown.key)])}",
    }
    if defined:
        context |= _chart(defined, shown)
    return render_page(request, "dashboard/objective.html", context)


def _beside(statuses: Sequence[ObjectiveStatus], compare: str) -> dict[str, Any]:
    """`rows`, each with its last 24 hours beside the same hours of an earlier day where that is asked for."""
    rows = [row(status) for status in statuses]
    if not compare:
        return {"rows": rows}
    back = EARLIER[compare]
    try:
        days = two_days(statuses, back, time.time_ns())
    except StoreUnavailableError:
        days = {}
    for each in rows:
        last, then = days.get(each["id"], (Day(0), Day(back)))
        good, good_then = last.good_share, then.good_share
        each |= {
            "last_day": _day(last),
            "other_day": _day(then),
            "change": words.change(good, good_then),
            "is_worse": good is not None and good_then is not None and good < good_then,
        }
    return {"rows": rows, "other_day": SHORT[back], "compare": compare}


def row(status: ObjectiveStatus) -> dict[str, Any]:
    """The values of a row that a template cannot compute."""
    objective = _objective(status.row)
    left, missed = status.budget_left, status.document.get("unmeasured")
    fastest = next(iter(status.document.get("verdicts", ())), None)
    return {
        "status": status,
        "id": status.key,
        "href": f"{reverse('objective', args=[status.row.slug])}"
        + (f"?{link_query([('of', status.key)])}" if status.row.split_by else ""),
        "now": now(status),
        "over_period": over_period(status),
        "scope": words.scope(status.scope),
        "nowhere": words.missing_values(status.scope),
        "why": status.why or (words.no_requests(objective) if status.is_empty and objective else ""),
        "history": _history(status),
        "unmeasured": words.unmeasured(missed, status.document.get("total", 0), minute),
        "unmeasured_for": f"{PAGE.duration(missed['seconds'])} {words.not_measured(missed)}" if missed else "",
        "target": PAGE.target(status.row.target),
        "sli": status.document.get("sli"),
        "left": left,
        "spent": PAGE.times(1 - left) if left is not None and left < -0.05 else "",
        "bar": max(0.0, min(1.0, left or 0.0)) * 100,
        "lasts": words.used_up_in(status.document.get("lasts_s"), left) if status.state != "unknown" else "",
        "lasts_short": PAGE.duration(max(status.document.get("lasts_s") or 0, 60)),
        "fast": PAGE.times(fastest["long"]) if fastest else "–",
        "fast_window": PAGE.duration(fastest["long_s"]) if fastest else "",
        "rates": rates(status),
        "owner": _owner(status),
        "period": words.period(objective) if objective else "",
    }


def _history(status: ObjectiveStatus) -> str:
    document = status.document
    if document.get("recorded_since_s") is None or status.at is None:
        return ""
    return words.recorded_part(
        document["recorded_since_s"], document["period_from_ns"] // 10**9, int(status.at.timestamp())
    )


def question(scope: Mapping[str, str], back: str) -> Question:
    """The requests of a scope, in a time that ends now."""
    return parse(
        {"from": [f"now-{back}"], "to": ["now"], **{name: [value or UNKNOWN] for name, value in scope.items()}},
        time.time_ns(),
    )


def _chart(objective: Objective, shown: ObjectiveStatus) -> dict[str, Any]:
    """The burn-down; without the store, a note that it does not answer."""
    now_ns = time.time_ns()
    span = range_of(objective, now_ns)
    maintained = queries.maintenance_in(objective, span)
    context: dict[str, Any] = {
        "maintained": [
            {"planned": window, "from_ns": when.from_ns, "to_ns": when.to_ns}
            for window, when in reversed(maintained[-6:])
        ],
        "requests_href": links.requests(question(shown.scope, "24h")),
        "latency_href": links.latency(question(shown.scope, "24h")),
    }
    try:
        seen = history(shown, now_ns)
    except StoreUnavailableError:
        return context | {"store_away": True}
    counted = [point for point in seen.points if point.total]
    if not counted:
        return context  # axes without a line would look like one that is hidden
    part = words.part_of(seen.span, period_at(objective.period, now_ns))
    spans = [when for _, when in maintained]
    changed = changes_in(Window(seen.span.from_ns, seen.span.to_ns), shown.scope)
    return context | {
        "figure": marked(burndown_figure(seen.points, seen.span, spans, shown.key), changed),
        "changes": changed,
        "seen": {"from_ns": seen.span.from_ns, "part": part} if part else None,
        "points": counted[:-49:-1],
        "days": [_day(day) for day in days(seen.points)],
    }


def _day(day: Day) -> dict[str, Any]:
    bad, total = day.counted or (None, None)
    kept = "no requests" if day.good_share is None else PAGE.precise(day.good_share)
    return {"name": DAYS[day.days_back], "kept": kept, "bad": bad, "total": total, "known": day.counted is not None}


def _fresh() -> dict[str, Any]:
    now_ns = time.time_ns()
    tick = queries.newest_tick()
    now_question = parse({}, now_ns)
    return {
        "question": now_question,
        "tick": tick,
        **freshness_context(now_question, int(tick.observed_at.timestamp() * 1e9) if tick else None, now_ns),
    }


def _objective(row: StoredObjective) -> Objective | None:
    try:
        return row.to_objective()
    except (ValueError, TypeError):
        return None


def _owner(status: ObjectiveStatus) -> str:
    return status.row.owner.name if status.row.owner else ""


def _facet(name: str, chosen: str, values: set[str]) -> dict[str, Any]:
    return facet(name, name, sorted(filter(None, values)), [chosen] if chosen else [])
