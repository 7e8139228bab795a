"""Makes the notices of an incident and puts them into the outbox, in the caller's transaction."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from controlplane.core.formatting import TEXT, capitalised, shortened
from controlplane.incidents.components.core import component_text
from controlplane.incidents.core.rules import RULES
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.notify.core.notice import SENT_AS, Link, Notice, NoticeAction
from controlplane.incidents.notify.delivery import enqueue, outbox
from controlplane.slo.core.windows import Severity
from controlplane.telemetry.query.core.question import UNKNOWN

MAX_TRACES = 3
AROUND_NS = 600 * 10**9


def facts(incident: Incident) -> page_text.Facts:
    known = page_text.Facts(
        name=incident.objective_name,
        definition=incident.definition,
        scope=incident.scope,
        burning=incident.burning,
        attribution=incident.attribution,
        missing=incident.attribution_missing,
        changes=incident.changes,
        owner=incident.owner,
        runbook=incident.runbook or (f"{page_url(incident)}#runbook" if incident.runbook_text else ""),
        labels=incident.labels,
    )
    if not incident.is_open:
        return known
    if incident.component:
        up_for = TEXT.duration(settings.CONFIG.component_up_for_s)
        return replace(known, resolves=component_text.resolves(incident.definition, up_for))
    quiet_for = TEXT.duration(RULES.hold.total_seconds())
    return replace(known, resolves=f"resolves once no window has burned too fast for {quiet_for}")


def destination_names(incident: Incident) -> str:
    """Names of the destinations of its notices."""
    names = outbox.destinations(incident.notice_key)
    return ", ".join(names) if names else "nobody"


def trigger(incident: Incident, at: datetime) -> None:
    known = facts(incident)
    incident.summary = page_text.summary(known)
    _send(incident, "trigger", at, incident.summary, known)


def acknowledge(incident: Incident, at: datetime, known_to: str = "") -> None:
    _send(
        incident,
        "acknowledge",
        at,
        f"{incident.acknowledged_by} acknowledged: {incident.summary}",
        facts(incident),
        known_to,
    )


def resolve(incident: Incident, at: datetime, why: str, known_to: str = "") -> None:
    known = facts(incident)
    incident.summary = page_text.summary(known)
    said = incident.summary if incident.summary.startswith(why) else f"{capitalised(why)}: {incident.summary}"
    _send(incident, "resolve", at, capitalised(said), known, known_to)


def _send(
    incident: Incident, action: NoticeAction, at: datetime, summary: str, known: page_text.Facts, known_to: str = ""
) -> None:
    """Increases the incident's sequence; the caller saves it."""
    incident.sequence += 1
    enqueue(
        Notice(
            action=action,
            key=incident.notice_key,
            sequence=incident.sequence,
            at=at,
            summary=shortened(summary, page_text.MAX_SUMMARY_CHARS),
            severity=SENT_AS[cast(Severity, incident.severity)],
            source="weir",
            team=incident.owner,
            component=incident.component or page_text.component(incident.scope),
            group=incident.group,
            kind=page_text.quantity(incident.definition),
            details=page_text.details(known),
            links=links(incident, known),
            known_to=known_to,
        )
    )


def links(incident: Incident, known: page_text.Facts) -> tuple[Link, ...]:
    """Absolute: the incident's page, the runbook, the latency at that time, the worst traces."""
    latency = latency_path(incident.scope, incident.attribution or {})
    return page_text.links(
        page_url(incident),
        known,
        absolute(latency) if latency else "",
        [(trace, absolute(reverse("trace", args=[trace]))) for trace in traces(incident)],
    )


def traces(incident: Incident) -> list[str]:
    return list((incident.attribution or {}).get("traces") or [])[:MAX_TRACES]


def page_url(incident: Incident) -> str:
    return absolute(reverse("incident", args=[incident.pk]))


def latency_path(scope: Mapping[str, str], attribution: Mapping[str, Any]) -> str:
    """The latency page of the scope, from before it burned until the attribution; empty where that is not known."""
    if "to_ns" not in attribution:
        return ""
    from_ns = (attribution.get("since_ns") or attribution["from_ns"]) - AROUND_NS
    pairs = [("from", str(from_ns)), ("to", str(attribution["to_ns"]))]
    pairs += [(name, value or UNKNOWN) for name, value in sorted(scope.items())]
    return f"{reverse('latency')}?{urlencode(pairs)}"


def absolute(path: str) -> str:
    return f"{settings.CONFIG.public_url.rstrip('/')}{path}"
