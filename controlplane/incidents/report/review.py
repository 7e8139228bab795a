"""The incidents of a time, for a handover or a review: read from the database, and as Markdown."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane.core.formatting import TEXT
from controlplane.incidents.core.review import Past, Review, review
from controlplane.incidents.models import Entry, Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.report.postmortem import plain

MAX_INCIDENTS = 5_000
MAX_NOTES = 50


def incidents_of(begins: datetime, ends: datetime, owner: str = "") -> list[Incident]:
    """Those that were open at some time of the range, the newest first, at most MAX_INCIDENTS."""
    chosen = Incident.objects.filter(Q(resolved_at=None) | Q(resolved_at__gte=begins), opened_at__lt=ends)
    return list((chosen.filter(owner=owner) if owner else chosen).order_by("-opened_at", "-id")[:MAX_INCIDENTS])


def reviewed(incidents: Sequence[Incident], begins: datetime, ends: datetime) -> Review:
    return review([_past(incident) for incident in incidents], begins, ends)


def _past(incident: Incident) -> Past:
    attribution: Mapping[str, Any] = incident.attribution or {}
    return Past(
        incident.pk,
        incident.objective or incident.component,
        incident.objective_name,
        incident.severity,
        incident.opened_at,
        incident.acknowledged_at,
        incident.resolved_at,
        attribution.get("bad"),
        {stage["stage"]: stage["share"] for stage in attribution.get("stages") or []},
    )


def notes(begins: datetime, ends: datetime, incidents: Sequence[Incident]) -> list[Entry]:
    """What people wrote down, the newest first."""
    written = Entry.objects.filter(kind=Entry.Kind.NOTE, at__gte=begins, at__lt=ends, incident__in=incidents)
    return list(written.select_related("incident").order_by("-at", "-id")[:MAX_NOTES])


def subject(incident: Incident) -> str:
    facts = notices.facts(incident)
    return f"{page_text.subject(facts)} {page_text.measured(facts)}".strip()


def markdown(
    summary: Review, incidents: Sequence[Incident], said: Sequence[Entry], begins: datetime, ends: datetime
) -> str:
    """The same as the screen."""
    still_open = [incident for incident in incidents if incident.is_open]
    lines = [
        f"# Incidents from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC",
        "",
        f"- pages: {summary.pages}, tickets: {summary.tickets}, resolved: {summary.resolved}",
        f"- pages per shift of 8 h: {TEXT.number(summary.pages_per_shift)}",
        f"- MTTA: {_mean(summary.mtta_s)}; pages that nobody acknowledged: {summary.unacknowledged}",
        f"- MTTR: {_mean(summary.mttr_s)}; pages that are not resolved: {summary.unresolved}",
        "",
        "## Open now",
        "",
        *(
            [
                f"- #{each.pk} {plain(subject(each))}, {each.severity}, {each.status}"
                f"{f' by {plain(each.acknowledged_by)}' if each.acknowledged_by else ''}, since {each.opened_at:%Y-%m-%d %H:%M} UTC"
                for each in still_open
            ]
            or ["Nothing."]
        ),
        "",
        "## Noisiest",
        "",
        "| objective or component | pages | tickets | open for |",
        "|---|---|---|---|",
        *(
            f"| {plain(each.name)} | {each.pages} | {each.tickets} | {TEXT.duration(each.open_s)} |"
            for each in summary.noisiest
        ),
        "",
        "## Budget by cause",
        "",
        *(
            [f"- {each.name}: {TEXT.share(each.share)} of the bad requests" for each in summary.causes]
            or ["Not known."]
        ),
        "",
        "## Notes",
        "",
        *(
            [
                f"- {entry.at:%Y-%m-%d %H:%M} UTC, #{entry.incident_id}, {plain(entry.by)}: {plain(entry.text)}"
                for entry in said
            ]
            or ["None."]
        ),
        "",
    ]
    return "\n".join(lines)


def _mean(seconds: float | None) -> str:
    return "not known" if seconds is None else TEXT.duration(seconds)
