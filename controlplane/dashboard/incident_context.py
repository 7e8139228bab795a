"""What stands around an incident: what else is open, what policies did about it, and how earlier ones like it ended."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q
from django.urls import reverse

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.core.similar_incidents import Alike, most_alike
from controlplane.incidents.models import Entry, Incident
from controlplane.policy.models import DecisionChange

MAX_EARLIER = 200
"""Incidents of the same objective or component that are looked through, the newest first."""
MAX_SHOWN = 5
SEEN_WITHIN = timedelta(minutes=1)
"""A component that went down is seen down within this; where it took longer, nobody looked."""


def around(incident: Incident, now: datetime) -> dict[str, Any]:
    ends = incident.resolved_at or now
    return {
        "also_open": [_brief(each) for each in _also_open(incident, ends)],
        "acted": _acted(incident, ends),
        "began": began(incident),
        "acted_href": f"{reverse('decisions')}?{link_query(_decisions_of(incident, ends))}",
        "similar": _similar(incident),
    }


def began(incident: Incident) -> datetime:
    """When its first bad request came; of a component when it was last seen up, since it may have been down for a while when that was
    seen. Policies may have acted by then."""
    first = incident.since or incident.opened_at
    if not (up_ns := incident.opened_with.get("up_at_ns")):
        return first
    return min(first, max(datetime.fromtimestamp(up_ns / 1e9, UTC), first - SEEN_WITHIN))


def _also_open(incident: Incident, ends: datetime) -> list[Incident]:
    """At the same time as it, the newest first."""
    meanwhile = Q(resolved_at=None) | Q(resolved_at__gte=incident.opened_at)
    return list(Incident.objects.filter(meanwhile, opened_at__lt=ends).exclude(pk=incident.pk)[:MAX_SHOWN])


def _acted(incident: Incident, ends: datetime) -> list[DecisionChange]:
    """What policies changed from its beginning to its end, of its model and pool; the newest first."""
    changes = DecisionChange.objects.filter(at__gte=began(incident), at__lte=ends, shadow=False).exclude(
        kind=DecisionChange.Kind.ALARM
    )
    model, pool = incident.scope.get("model"), _pool(incident)
    if pool:
        changes = changes.filter(Q(pool=pool) | Q(pool="", model=model or ""))
    elif model:
        changes = changes.filter(model=model)
    return list(changes.order_by("-at", "-pk")[:MAX_SHOWN])


def _decisions_of(incident: Incident, ends: datetime) -> list[tuple[str, str]]:
    pairs = [
        ("from", f"{began(incident):%Y-%m-%dT%H:%M:%SZ}"),
        ("to", "now" if incident.is_open else f"{ends:%Y-%m-%dT%H:%M:%SZ}"),
    ]
    pairs += [("model", incident.scope["model"])] if incident.scope.get("model") else []
    return pairs + ([("pool", pool)] if (pool := _pool(incident)) else [])


def _pool(incident: Incident) -> str:
    kind, _, name = incident.component.partition(":")
    return name if kind == "pool" else incident.scope.get("pool", "")


def _similar(incident: Incident) -> list[dict[str, Any]]:
    """The most alike of those that are over, and how each ended."""
    same = {"component": incident.component} if incident.component else {"objective": incident.objective}
    earlier = list(
        Incident.objects.filter(**same, status=Incident.Status.RESOLVED, opened_at__lt=incident.opened_at).order_by(
            "-opened_at"
        )[:MAX_EARLIER]
    )
    by_number = {each.pk: each for each in earlier}
    chosen = most_alike(_alike(incident), [_alike(each) for each in earlier], MAX_SHOWN)
    notes: Mapping[int, str] = {
        entry.incident_id: entry.text
        for entry in Entry.objects.filter(incident__in=[each.number for each, _ in chosen]).exclude(text="")
        if entry.kind in (Entry.Kind.NOTE, Entry.Kind.RESOLVED) and entry.by != "weir"
    }
    return [
        {**_brief(by_number[each.number]), "alike": " and ".join(reasons), "note": notes.get(each.number, "")}
        for each, reasons in chosen
    ]


def _alike(incident: Incident) -> Alike:
    attribution = incident.attribution or {}
    stages = sorted(attribution.get("stages") or [], key=lambda stage: -stage["share"])
    errors = attribution.get("errors") or []
    return Alike(
        incident.pk,
        dict(incident.scope),
        stages[0]["stage"] if stages else "",
        str(errors[0]["error_type"]) if errors else "",
        frozenset((segment["dimension"], segment["value"]) for segment in attribution.get("segments") or []),
    )


def _brief(incident: Incident) -> dict[str, Any]:
    ended = incident.resolved_at
    return {
        "incident": incident,
        "href": reverse("incident", args=[incident.pk]),
        "lasted": PAGE.duration((ended - incident.opened_at).total_seconds()) if ended else "",
    }
