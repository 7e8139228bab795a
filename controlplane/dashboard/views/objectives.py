"""Objectives: which are in danger, how fast each burns, and who eats its budget."""

import time
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone

from controlplane.core.formatting import PAGE
from controlplane.dashboard import links, vendor
from controlplane.dashboard.core.figures.burndown import burndown_figure
from controlplane.dashboard.views.common import facet, freshness_context, is_fragment, page
from controlplane.dashboard.views.objective_parts import INCIDENT_STATES, STATE_LOOKS, rates
from controlplane.incidents.models import Incident
from controlplane.slo import queries
from controlplane.slo.core import words
from controlplane.slo.core.burndown import range_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.models import StoredObjective
from controlplane.slo.queries import ObjectiveStatus
from controlplane.telemetry.query.core.parameters import choice, query_string
from controlplane.telemetry.query.core.question import UNKNOWN, Question, parse
from controlplane.telemetry.store import StoreUnavailableError

SHOWN_STATES = ("firing", "unknown", "quiet", "disabled")


@page
def objectives(request: HttpRequest) -> HttpResponse:
    """`?owner=`, `?model=`, `?state=` choose some; the worst come first."""
    parameters = dict(request.GET.lists())
    state = choice(parameters, "state", ("", *SHOWN_STATES), "")
    owner, model = request.GET.get("owner", ""), request.GET.get("model", "")
    every = queries.all_statuses()
    chosen = [
        one
        for one in every
        if state in ("", one.state) and owner in ("", _owner(one)) and model in ("", one.scope.get("model", ""))
    ]
    context = {
        **_fresh(),
        "rows": [row(one) for one in chosen],
        "total": len(every),
        "facets": [
            _facet("owner", owner, {_owner(one) for one in every}),
            _facet("model", model, {one.scope.get("model", "") for one in every}),
            _facet("state", state, set(SHOWN_STATES)),
        ],
        "path": request.path,
        "filtered": bool(state or owner or model),
        "firing": sum(one.state == "firing" for one in chosen),
        "unknown": sum(one.state == "unknown" for one in chosen),
        "enabled": sum(one.state != "disabled" for one in chosen),
        "disabled": sum(one.state == "disabled" for one in chosen),
        "judged": sum(one.state not in ("unknown", "disabled") for one in chosen),
    }
    name = "dashboard/objectives.html#data" if is_fragment(request) else "dashboard/objectives.html"
    return render(request, name, context)


@page
def objective(request: HttpRequest, slug: str) -> HttpResponse:
    """`?of=`: the key of the scope that is shown, of one that is split."""
    found = _found(slug)
    told = sorted(queries.statuses(found, found.states.all(), timezone.now()), key=queries.urgency)
    shown = next((one for one in told if one.key == request.GET.get("of")), told[0])
    promise = _promise(found)
    context: dict[str, Any] = {
        **_fresh(),
        "one": row(shown),
        "others": [row(one) for one in told] if len(told) > 1 or (found.split_by and not shown.is_empty) else [],
        "objective": promise,
        "promise": words.summary(promise) if promise else "",
        "verdicts": rates(shown),
        "document": shown.document,
        "revisions": found.revisions.all()[:12],
        "incident": Incident.objects.filter(alert_key=shown.key).exclude(status=Incident.Status.RESOLVED).first(),
        "incidents": Incident.objects.filter(objective=slug).order_by("-opened_at")[:5],
        "incident_looks": INCIDENT_STATES,
        "plotly": vendor.plotly(),
        "burned_path": f"{reverse('objective-burned', args=[slug])}?{query_string([('of', shown.key)])}",
    }
    if promise:
        context |= _chart(promise, shown)
    name = "dashboard/objective.html#data" if is_fragment(request) else "dashboard/objective.html"
    return render(request, name, context)


def row(one: ObjectiveStatus) -> dict[str, Any]:
    """A row with what a template cannot work out."""
    promise = _promise(one.row)
    look = "empty" if one.is_empty else one.severity if one.state == "firing" else one.state
    icon, tone, word = STATE_LOOKS[look]
    left = one.budget_left
    fastest = next(iter(one.document.get("verdicts", ())), None)
    return {
        "told": one,
        "id": one.key,
        "href": f"{reverse('objective', args=[one.row.slug])}"
        + (f"?{query_string([('of', one.key)])}" if one.row.split_by else ""),
        "icon": icon,
        "tone": tone,
        "word": word,
        "scope": words.scope(one.scope),
        "nowhere": words.nowhere(one.scope),
        "why": one.why or (words.no_requests(promise) if one.is_empty and promise else ""),
        "history": _history(one),
        "target": PAGE.target(one.row.target),
        "promise": words.summary(promise) if promise else "",
        "sli": one.document.get("sli"),
        "left": left,
        "spent": PAGE.times(1 - left) if left is not None and left < -0.05 else "",
        "bar": max(0.0, min(1.0, left or 0.0)) * 100,
        "lasts": words.lasts(one.document.get("lasts_s"), left) if one.state != "unknown" else "",
        "lasts_short": PAGE.duration(max(one.document.get("lasts_s") or 0, 60)),
        "fast": PAGE.times(fastest["long"]) if fastest else "–",
        "fast_window": PAGE.duration(fastest["long_s"]) if fastest else "",
        "rates": rates(one),
        "owner": _owner(one),
        "period": words.period(promise) if promise else "",
    }


def _history(one: ObjectiveStatus) -> str:
    found = one.document
    if found.get("recorded_since_s") is None or one.at is None:
        return ""
    return words.history(found["recorded_since_s"], found["period_from_ns"] // 10**9, int(one.at.timestamp()))


def question(scope: Mapping[str, str], back: str) -> Question:
    """The requests of a scope, in a time that ends now."""
    return parse(
        {"from": [f"now-{back}"], "to": ["now"], **{name: [value or UNKNOWN] for name, value in scope.items()}},
        time.time_ns(),
    )


def _chart(promise: Objective, shown: ObjectiveStatus) -> dict[str, Any]:
    """The burn-down; without the store, that it is away, and the rest of the page stays."""
    now_ns = time.time_ns()
    span = range_of(promise, now_ns)
    maintained = queries.maintenance_in(promise, span)
    context: dict[str, Any] = {
        "maintained": [
            {"planned": one, "from_ns": when.from_ns, "to_ns": when.to_ns} for one, when in reversed(maintained[-6:])
        ],
        "requests_href": links.requests(question(shown.scope, "24h")),
        "latency_href": links.latency(question(shown.scope, "24h")),
    }
    try:
        points = queries.history(promise, shown.scope, now_ns)
    except StoreUnavailableError:
        return context | {"store_away": True}
    counted = [one for one in points if one.total]
    if not counted:
        return context  # axes without a line would look like one that is hidden
    spans = [when for _, when in maintained]
    return context | {
        "figure": burndown_figure(points, span, spans, shown.key),
        "points": counted[:-49:-1],
    }


def _fresh() -> dict[str, Any]:
    now_ns = time.time_ns()
    tick = queries.newest_tick()
    asked_now = parse({}, now_ns)
    return {
        "question": asked_now,
        "tick": tick,
        **freshness_context(asked_now, int(tick.at.timestamp() * 1e9) if tick else None, now_ns),
    }


def _found(slug: str) -> StoredObjective:
    return get_object_or_404(StoredObjective.objects.select_related("owner"), slug=slug)


def _promise(found: StoredObjective) -> Objective | None:
    try:
        return found.to_objective()
    except (ValueError, TypeError):
        return None


def _owner(one: ObjectiveStatus) -> str:
    return one.row.owner.name if one.row.owner else ""


def _facet(name: str, chosen: str, values: set[str]) -> dict[str, Any]:
    return facet(name, name, sorted(filter(None, values)), [chosen] if chosen else [])
