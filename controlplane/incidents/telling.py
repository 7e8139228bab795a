"""Notices of an incident, put into the outbox in the caller's transaction: with it they are kept, without it they never were."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from controlplane.incidents import text, underway
from controlplane.incidents.delivery import enqueue
from controlplane.incidents.models import Incident
from controlplane.incidents.notice import Link, Notice, NoticeAction
from controlplane.telemetry.ask.question import UNKNOWN

MOST_TRACES = 3
AROUND_NS = 600 * 10**9


def facts(incident: Incident) -> text.Facts:
    return text.Facts(
        name=incident.objective_name,
        promise=incident.promise,
        scope=incident.scope,
        burning=incident.burning,
        attribution=incident.attribution,
        missing=incident.attribution_missing,
        action=underway.under_way(incident.scope),
        owner=incident.owner,
        runbook=incident.runbook,
        labels=incident.labels,
    )


def trigger(incident: Incident, at: datetime) -> None:
    found = facts(incident)
    incident.summary = text.summary(found)
    _send(incident, "trigger", at, incident.summary, found)


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
    _send(incident, "resolve", at, f"{why[:1].upper()}{why[1:]}: {incident.summary}", facts(incident), known_to)


def _send(
    incident: Incident, action: NoticeAction, at: datetime, summary: str, found: text.Facts, known_to: str = ""
) -> None:
    """The caller saves the incident, whose sequence grows."""
    incident.sequence += 1
    enqueue(
        Notice(
            action=action,
            key=incident.notice_key,
            sequence=incident.sequence,
            at=at,
            summary=text.shortened(summary),
            severity="critical" if incident.severity == Incident.Severity.PAGE else "warning",
            source="weir",
            team=incident.owner,
            component=text.component(incident.scope),
            group=incident.group,
            kind=text.quantity(incident.promise),
            details=text.details(found),
            links=links(incident, found),
            known_to=known_to,
        )
    )


def links(incident: Incident, found: text.Facts) -> tuple[Link, ...]:
    """Absolute: the incident's page, the runbook, the latency at that time, the worst traces."""
    return text.links(
        page_url(incident),
        found,
        latency_url(incident.scope, incident.attribution or {}),
        [(trace, absolute(reverse("trace", args=[trace]))) for trace in traces(incident)],
    )


def traces(incident: Incident) -> list[str]:
    return list((incident.attribution or {}).get("traces") or [])[:MOST_TRACES]


def page_url(incident: Incident) -> str:
    return absolute(reverse("incident", args=[incident.pk]))


def latency_url(scope: Mapping[str, str], attribution: Mapping[str, Any]) -> str:
    path = latency_path(scope, attribution)
    return absolute(path) if path else ""


def latency_path(scope: Mapping[str, str], attribution: Mapping[str, Any]) -> str:
    """The latency page of the scope, from before the burning began until it was looked at; empty where nobody knows when."""
    if "to_ns" not in attribution:
        return ""
    from_ns = (attribution.get("since_ns") or attribution["from_ns"]) - AROUND_NS
    pairs = [("from", str(from_ns)), ("to", str(attribution["to_ns"]))]
    pairs += [(name, value or UNKNOWN) for name, value in sorted(scope.items())]
    return f"{reverse('latency')}?{urlencode(pairs)}"


def absolute(path: str) -> str:
    return f"{settings.CONFIG.public_url.rstrip('/')}{path}"
