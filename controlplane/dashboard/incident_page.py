"""An incident as pages show it: looks, figures, links. What it says comes from controlplane/incidents/notify/core/page_text.py."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from controlplane.core.formatting import PAGE, TEXT
from controlplane.dashboard.core.figures.burn import BurnChart, burn_chart
from controlplane.incidents.act import actions
from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.report import standing, timeline
from controlplane.incidents.report.standing import Standing
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.ledger.row import STAGES

SECOND_NS = 10**9
QUARTER = 0.25


class Look(NamedTuple):
    """Icon, colour class, word: never colour alone."""

    icon: str
    tone: str
    word: str


SEVERITIES = {"page": Look("✕", "bad", "page"), "ticket": Look("▲", "warn", "ticket")}
STATUSES = {
    "open": Look("●", "bad", "open"),
    "acknowledged": Look("◐", "warn", "acknowledged"),
    "resolved": Look("✓", "good", "resolved"),
}
SIGNALS = {
    "firing": Look("▲", "bad", "firing"),
    "quiet": Look("◐", "muted", "quiet, about to resolve"),
    "unknown": Look("○", "warn", "no data: held open"),
    "missing": Look("○", "warn", "no longer in the data: resolves once its windows are empty"),
}
ENTRY_ICONS: Mapping[str, str] = {
    Entry.Kind.OPENED: "●",
    Entry.Kind.ESCALATED: "▲",
    Entry.Kind.QUEUED: "…",
    Entry.Kind.WITHHELD: "⊘",
    Entry.Kind.ACKNOWLEDGED: "◐",
    Entry.Kind.RESOLVED: "✓",
    Entry.Kind.REOPENED: "●",
    Entry.Kind.NOTE: "✎",
    "delivered": "→",
    "refused": "✕",
}
STANDINGS: Mapping[standing.Kind, tuple[str, str]] = {
    "withheld": ("⊘", "withheld"),
    "nobody": ("✕", "bad"),
    "failed": ("✕", "bad"),
    "queued": ("◐", "warn"),
    "delivered": ("→", "muted"),
    "waiting": ("◐", "muted"),
}
"""Icon and colour class of what became of an incident's notices."""
DELIVERY_LOOKS = {
    "pending": Look("◐", "muted", "queued, not accepted yet"),
    "delivered": Look("✓", "good", "delivered"),
    "dead": Look("✕", "bad", "refused"),
    "dropped": Look("○", "muted", "not needed"),
}
VIA = {"pagerduty": "PagerDuty"}
LEAST_SHARE = 0.005  # of the burn: smaller stages are left out of bar and table


def summed(incidents: Sequence[Incident], now: datetime) -> dict[str, Any]:
    """Counts of open incidents. One that no destination takes is not withheld: somebody should have been notified."""
    standings = standing.standings(incidents, now)
    withheld = [incident for incident in incidents if standings[incident.pk].kind == "withheld"]
    pages = [incident for incident in incidents if incident.severity == "page" and incident not in withheld]
    return {
        "pages": len(pages),
        "tickets": sum(incident.severity == "ticket" for incident in incidents if incident not in withheld),
        "withheld": len(withheld),
        "unacknowledged": sum(incident.status == "open" for incident in pages),
        "not_notified": sum(standings[incident.pk].kind in ("nobody", "failed") for incident in incidents),
    }


def grouped(incidents: Sequence[Incident], now: datetime) -> list[tuple[str, list[dict[str, Any]]]]:
    """By model and owner, each with a row per incident: a group hides none of them. Groups with a page come first."""
    groups: dict[str, list[Incident]] = {}
    for one in sorted(incidents, key=lambda one: (not one.is_open, one.severity != "page", -one.opened_at.timestamp())):
        groups.setdefault(one.group, []).append(one)
    found = standing.standings(incidents, now)
    return [(name, [row(one, now, found[one.pk]) for one in members]) for name, members in groups.items()]


def row(incident: Incident, now: datetime, holds: Standing) -> dict[str, Any]:
    facts = notices.facts(incident)
    icon, tone = STANDINGS[holds.kind]
    return {
        "incident": incident,
        "href": reverse("incident", args=[incident.pk]),
        "title": f"{page_text.subject(facts)} {page_text.measured(facts)}",
        "blame": page_text.blame(facts),
        "severity": SEVERITIES[incident.severity],
        "status": STATUSES[incident.status],
        "signal": SIGNALS["missing" if incident.missing_since else incident.signal] if incident.is_open else None,
        "notified": Look(icon, tone, holds.said),
        "is_notified": holds.kind == "delivered" and not holds.silence,
        "age": PAGE.duration((now - incident.opened_at).total_seconds()),
        "lasted": PAGE.duration(((incident.resolved_at or now) - incident.opened_at).total_seconds()),
        "silence_href": silence_href(incident),
    }


def silence_href(incident: Incident) -> str:
    """The form for a silence of just this one."""
    matchers = [
        f"component={incident.component}" if incident.component else f"objective={incident.objective}",
        *(f"{name}={value}" if value else f"{name}!=?*" for name, value in sorted(incident.scope.items())),
    ]
    pairs = [*(("matcher", one) for one in matchers), ("next", reverse("incident", args=[incident.pk]))]
    return f"{reverse('silences')}?{urlencode(pairs)}#new"


def detail(incident: Incident) -> dict[str, Any]:
    """Everything of one incident, from what was frozen; nothing here asks the store."""
    facts, found, now = notices.facts(incident), incident.attribution or {}, timezone.now()
    return {
        **row(incident, now, standing.standings([incident], now)[incident.pk]),
        "actions": {"incident": incident, "silence_href": silence_href(incident)},
        "objective_href": objective_href(incident.objective) if incident.objective else "",
        "runbook_href": incident.runbook if incident.runbook.startswith(("https://", "http://")) else "",
        "burn": page_text.burn_text(incident.burning),
        "is_seen": incident.is_open and incident.signal != Incident.Signal.UNKNOWN,
        "budget": page_text.budget(incident.burning),
        "resolves": facts.resolves,
        "since": page_text.since_text(found),
        "found": found,
        "stages": stages(found),
        "bar": bar(found),
        "segments": [segment(one, incident.scope, found) for one in found.get("segments") or []],
        "changes": found.get("changes") or [],
        "causes": [{**one, "href": f"{reverse('causes')}#{one['name']}"} for one in found.get("causes") or []],
        "traces": [{"id": one, "href": reverse("trace", args=[one])} for one in found.get("traces") or []],
        "windows": windows(incident.opened_with, incident.burning),
        "chart": chart(incident, found),
        "latency_href": notices.latency_path(incident.scope, found),
        "timeline": [
            {"line": one, "icon": ENTRY_ICONS.get(one.kind, "·"), "via": VIA.get(one.via, one.via)}
            for one in timeline.timeline(incident)
        ],
        "deliveries": deliveries(incident),
        "resolved": None if incident.is_open else resolved(incident, now),
        "deliveries_href": f"{reverse('deliveries')}?{urlencode([('key', key) for key in timeline.keys(incident)])}",
    }


def resolved(incident: Incident, now: datetime) -> dict[str, Any]:
    """What follows from its end: what Weir does if it still fires, and whether somebody can open it again."""
    cools = incident.cool_until is not None and now < incident.cool_until
    return {"cool_until": incident.cool_until if cools else None, "why_not": actions.why_not_reopened(incident, now)}


def objective_href(slug: str) -> str:
    """Empty where it has been removed since."""
    return reverse("objective", args=[slug]) if StoredObjective.objects.filter(slug=slug).exists() else ""


def stages(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found.get("stages") or [] if one["share"] >= LEAST_SHARE]


def bar(found: Mapping[str, Any]) -> dict[str, Any]:
    """Shares of the burn as a stack: of those stages alone in which the bad requests took longer."""
    parts = {one["stage"]: round(one["share"] * 10_000) for one in stages(found)}
    return {
        "stages": {name: value for name, value in parts.items() if name in STAGES},
        "unattributed": parts.get("unattributed", 0),
        "of": sum(parts.values()),
    }


def segment(found: Mapping[str, Any], scope: Mapping[str, str], attribution: Mapping[str, Any]) -> dict[str, Any]:
    """With where it leads: the latency of these requests at that time."""
    narrowed = {**scope, found["dimension"]: found["value"]}
    return {
        **found,
        "name": page_text.DIMENSION_NAMES.get(found["dimension"], found["dimension"]),
        "href": notices.latency_path(narrowed, attribution) if found["value"] else "",
        "traces": [{"id": one, "href": reverse("trace", args=[one])} for one in found.get("exemplars") or []],
    }


def windows(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Burn rates at opening and as last seen, one row a window."""
    latest = {(one["long_s"], one["short_s"]): one for one in now.get("windows") or []}
    return [
        {
            "severity": one["severity"],
            "length": f"{TEXT.duration(one['long_s'])} and {TEXT.duration(one['short_s'])}",
            "threshold": one["threshold"],
            "then": one,
            "now": latest.get((one["long_s"], one["short_s"])),
        }
        for one in then.get("windows") or []
    ]


def chart(incident: Incident, found: Mapping[str, Any]) -> BurnChart | None:
    if not found.get("steps"):
        return None
    from_ns, to_ns = _span(found)
    marks = [(found["since_ns"], "first bad minute")] if found.get("since_ns") else []
    marks += [(int(incident.opened_at.timestamp() * SECOND_NS), "opened")]
    marks += [(one["at_ns"], one["summary"]) for one in (found.get("changes") or [])[:1]]
    return burn_chart(
        found["steps"], found["step_s"], page_text.quantile(incident.definition), marks, from_ns, to_ns + SECOND_NS
    )


def _span(found: Mapping[str, Any]) -> tuple[int, int]:
    if not found:
        return 0, 0
    return found["from_ns"] - int((found["to_ns"] - found["from_ns"]) * QUARTER), found["to_ns"]


def deliveries(incident: Incident) -> list[dict[str, Any]]:
    found = (
        Delivery.objects.filter(key__in=timeline.keys(incident))
        .select_related("destination", "endpoint")
        .order_by("enqueued_at", "id")
    )
    return [{"delivery": one, "look": DELIVERY_LOOKS.get(one.state, DELIVERY_LOOKS["pending"])} for one in found]
