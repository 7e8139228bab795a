"""Prepares an incident for its screen: icons, figures, links. Its sentences come from controlplane/incidents/notify/core/page_text.py."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from controlplane.core.formatting import PAGE, TEXT
from controlplane.dashboard.changes import ChangeMark, changes_in, marks
from controlplane.dashboard.core.badge import Badge
from controlplane.dashboard.core.figures.burn import burn_chart
from controlplane.dashboard.incident_context import around, began
from controlplane.incidents.act import actions
from controlplane.incidents.attribution.changed import changed_before
from controlplane.incidents.core import runbook
from controlplane.incidents.models import ChangeRecord, Entry, Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.report import standing, timeline
from controlplane.incidents.report.standing import Standing
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Window
from inference.contract.stages import STAGES

SECOND_NS = 10**9
QUARTER = 0.25


SEVERITIES = {"page": Badge("✕", "bad", "page"), "ticket": Badge("▲", "warn", "ticket")}
STATUSES = {
    "open": Badge("●", "bad", "open"),
    "acknowledged": Badge("◐", "warn", "acknowledged"),
    "resolved": Badge("✓", "good", "resolved"),
}
SIGNALS = {
    "firing": Badge("▲", "bad", "firing"),
    "quiet": Badge("◐", "muted", "quiet, about to resolve"),
    "unknown": Badge("○", "warn", "no data: held open"),
    "missing": Badge("○", "warn", "no longer in the data: resolves once its windows are empty"),
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
    Entry.Kind.STEP: "✓",
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
"""Icon and colour class of the state of an incident's notices."""
DELIVERY_LOOKS = {
    "pending": Badge("◐", "muted", "queued, not accepted yet"),
    "delivered": Badge("✓", "good", "delivered"),
    "dead": Badge("✕", "bad", "refused"),
    "dropped": Badge("○", "muted", "not needed"),
}
VIA = {"pagerduty": "PagerDuty"}
MIN_SHARE = 0.005  # of the burn: smaller stages are left out of bar and table


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
    """By model and owner, each with a row per incident: all of them are shown. Groups with a page come first."""
    groups: dict[str, list[Incident]] = {}
    for incident in sorted(
        incidents,
        key=lambda incident: (not incident.is_open, incident.severity != "page", -incident.opened_at.timestamp()),
    ):
        groups.setdefault(incident.group, []).append(incident)
    standings = standing.standings(incidents, now)
    return [
        (name, [row(incident, now, standings[incident.pk]) for incident in members]) for name, members in groups.items()
    ]


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
        "notified": Badge(icon, tone, holds.said),
        "is_notified": holds.kind == "delivered" and not holds.silence,
        "age": PAGE.duration((now - incident.opened_at).total_seconds()),
        "lasted": PAGE.duration(((incident.resolved_at or now) - incident.opened_at).total_seconds()),
        "silence_href": silence_href(incident),
    }


def silence_href(incident: Incident) -> str:
    """URL of the form, filled in for a silence of this incident."""
    matchers = [
        f"component={incident.component}" if incident.component else f"objective={incident.objective}",
        *(f"{name}={value}" if value else f"{name}!=?*" for name, value in sorted(incident.scope.items())),
    ]
    pairs = [*(("matcher", matcher) for matcher in matchers), ("next", reverse("incident", args=[incident.pk]))]
    return f"{reverse('silences')}?{urlencode(pairs)}#new"


def detail(incident: Incident) -> dict[str, Any]:
    """All of one incident, from what was stored at its opening; the store is not queried."""
    facts, attribution, now = notices.facts(incident), incident.attribution or {}, timezone.now()
    return {
        **row(incident, now, standing.standings([incident], now)[incident.pk]),
        **around(incident, now),
        "actions": {"incident": incident, "silence_href": silence_href(incident)},
        "objective_href": objective_href(incident.objective) if incident.objective else "",
        "runbook_href": incident.runbook if incident.runbook.startswith(("https://", "http://")) else "",
        "runbook": read(incident),
        "burn": page_text.burn_text(incident.burning),
        "is_seen": incident.is_open and incident.signal != Incident.Signal.UNKNOWN,
        "budget": page_text.budget(incident.burning),
        "resolves": facts.resolves,
        "attribution": attribution,
        "errors": [{**failed, "words": page_text.error(failed)} for failed in attribution.get("errors") or []],
        "stages": stages(attribution),
        "bar": bar(attribution),
        "segments": [segment(item, incident.scope, attribution) for item in attribution.get("segments") or []],
        "changed_before": changes_before(incident),
        "causes": [
            {**cause, "href": f"{reverse('causes')}#{cause['name']}"} for cause in attribution.get("causes") or []
        ],
        "traces": [{"id": trace, "href": reverse("trace", args=[trace])} for trace in attribution.get("traces") or []],
        "windows": windows(incident.opened_with, incident.burning),
        "chart": chart(incident, attribution),
        "latency_href": notices.latency_path(incident.scope, attribution),
        "timeline": [
            {"line": entry, "icon": ENTRY_ICONS.get(entry.kind, "·"), "via": VIA.get(entry.via, entry.via)}
            for entry in timeline.timeline(incident)
        ],
        "deliveries": deliveries(incident),
        "resolved": None if incident.is_open else resolved(incident, now),
        "deliveries_href": f"{reverse('deliveries')}?{urlencode([('key', key) for key in timeline.keys(incident)])}",
    }


def read(incident: Incident) -> dict[str, Any]:
    """The runbook in its order, each part with who did it, and the first step that is open."""
    parts = [(block, _done_by(incident, block.number)) for block in runbook.blocks(incident.runbook_text)]
    return {
        "parts": parts,
        "count": sum(block.number > 0 for block, _ in parts),
        "next": next((block for block, done in parts if block.number and not done), None),
    }


def _done_by(incident: Incident, number: int) -> dict[str, Any] | None:
    done = incident.steps_done.get(str(number))
    return {"by": done["by"], "at": datetime.fromisoformat(done["at"])} if done else None


def changes_before(incident: Incident) -> list[ChangeMark]:
    """Of an objective those that its page names; of a component, of which only the database is asked, those recorded by now."""
    if incident.component:
        return marks(changed_before(incident.scope, began(incident), incident.since or incident.opened_at))
    named = ChangeRecord.objects.filter(identity__in=[change["identity"] for change in incident.changes])
    return marks(named.order_by("-at", "-id"))


def resolved(incident: Incident, now: datetime) -> dict[str, Any]:
    """What Weir does if the alert still fires, and whether the incident can be reopened."""
    cools = incident.cool_until is not None and now < incident.cool_until
    return {"cool_until": incident.cool_until if cools else None, "why_not": actions.why_not_reopened(incident, now)}


def objective_href(slug: str) -> str:
    """Empty if it was removed."""
    return reverse("objective", args=[slug]) if StoredObjective.objects.filter(slug=slug).exists() else ""


def stages(attribution: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [stage for stage in attribution.get("stages") or [] if stage["share"] >= MIN_SHARE]


def bar(attribution: Mapping[str, Any]) -> dict[str, Any]:
    """Shares of the burn as a stack of the stages in which the bad requests took longer."""
    parts = {stage["stage"]: round(stage["share"] * 10_000) for stage in stages(attribution)}
    return {
        "stages": {name: value for name, value in parts.items() if name in STAGES},
        "unattributed": parts.get("unattributed", 0),
        "of": sum(parts.values()),
    }


def segment(item: Mapping[str, Any], scope: Mapping[str, str], attribution: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a link to the latency of these requests at that time."""
    narrowed = {**scope, item["dimension"]: item["value"]}
    return {
        **item,
        "name": page_text.DIMENSION_NAMES.get(item["dimension"], item["dimension"]),
        "href": notices.latency_path(narrowed, attribution) if item["value"] else "",
        "traces": [
            {"id": trace_id, "href": reverse("trace", args=[trace_id])} for trace_id in item.get("exemplars") or []
        ],
    }


def windows(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Burn rates at opening and as last seen, one row a window."""
    latest = {(window["long_s"], window["short_s"]): window for window in now.get("windows") or []}
    return [
        {
            "severity": window["severity"],
            "length": f"{TEXT.duration(window['long_s'])} and {TEXT.duration(window['short_s'])}",
            "threshold": window["threshold"],
            "then": window,
            "now": latest.get((window["long_s"], window["short_s"])),
        }
        for window in then.get("windows") or []
    ]


def chart(incident: Incident, attribution: Mapping[str, Any]) -> dict[str, Any] | None:
    if not attribution.get("steps"):
        return None
    from_ns, to_ns = _span(attribution)
    lines = [(attribution["since_ns"], "first bad request")] if attribution.get("since_ns") else []
    lines += [(int(incident.opened_at.timestamp() * SECOND_NS), "opened")]
    lines += [
        (int(change.at.timestamp() * SECOND_NS), f"{change.summary} ({change.source})")
        for change in changes_in(Window(from_ns, to_ns), incident.scope)
    ]
    return burn_chart(
        attribution["steps"],
        attribution["step_s"],
        page_text.quantile(incident.definition),
        lines,
        from_ns,
        to_ns + SECOND_NS,
    )


def _span(attribution: Mapping[str, Any]) -> tuple[int, int]:
    if not attribution:
        return 0, 0
    return attribution["from_ns"] - int((attribution["to_ns"] - attribution["from_ns"]) * QUARTER), attribution["to_ns"]


def deliveries(incident: Incident) -> list[dict[str, Any]]:
    records = (
        Delivery.objects.filter(key__in=timeline.keys(incident))
        .select_related("destination", "endpoint")
        .order_by("enqueued_at", "id")
    )
    return [
        {"delivery": delivery, "look": DELIVERY_LOOKS.get(delivery.state, DELIVERY_LOOKS["pending"])}
        for delivery in records
    ]
