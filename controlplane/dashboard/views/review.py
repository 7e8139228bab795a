"""The incidents of a time on one screen and as Markdown: the handover of a shift, the review of a week."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.dashboard import links
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.incident_screen import SEVERITIES, STATUSES, objective_href
from controlplane.dashboard.views.common import facet, page, presets, render_page
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.report import review as report
from controlplane.telemetry.query.core.parameters import NAME, single
from controlplane.telemetry.query.core.question import DEFAULT_TO, Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, TimeRange, parse

WEEK = "now-7d"
LENGTHS = ("8h", "24h", "7d", "28d")


@dataclass(frozen=True, slots=True)
class ReviewQuery:
    range: TimeRange
    owner: str

    @property
    def begins(self) -> datetime:
        return datetime.fromtimestamp(self.range.window.from_ns / SECOND_NS, UTC)

    @property
    def ends(self) -> datetime:
        return datetime.fromtimestamp(self.range.window.to_ns / SECOND_NS, UTC)

    def parameters(self, question: Question | None = None) -> str:
        over = question.range if question else self.range
        owner = [("owner", self.owner)] if self.owner else []
        return link_query([("from", over.from_text), ("to", over.to_text), *owner])


@page
def review(request: HttpRequest) -> HttpResponse:
    """`?from=`, `?to=` (by default the last week), `?owner=`."""
    query = _query_of(request)
    incidents = report.incidents_of(query.begins, query.ends, query.owner)
    summary = report.reviewed(incidents, query.begins, query.ends)
    owners = sorted(set(Incident.objects.exclude(owner="").values_list("owner", flat=True)))
    context: dict[str, Any] = {
        "path": request.path,
        "range": query.range,
        "presets": presets(links.plain(query.range), query.parameters, LENGTHS),
        "resume": query.parameters(links.back(links.plain(query.range), "7d")),
        "facets": [facet("owner", "owner", owners, [query.owner] if query.owner else [])],
        "review": summary,
        "noisiest": [
            {
                "noisy": each,
                "href": objective_href(each.of)
                or f"{reverse('incidents')}?{link_query([('component', each.of), ('status', 'all')])}",
            }
            for each in summary.noisiest
        ],
        "still_open": [_row(incident) for incident in incidents if incident.is_open],
        "over": [_row(incident) for incident in incidents if not incident.is_open][: report.MAX_NOTES],
        "notes": report.notes(query.begins, query.ends, incidents),
        "silences": SilenceRecord.objects.filter(ends_at__gt=query.ends, starts_at__lte=query.ends).order_by("ends_at"),
        "markdown_href": f"{reverse('review-markdown')}?{query.parameters()}",
    }
    return render_page(request, "incidents/review.html", context)


@page
def review_markdown(request: HttpRequest) -> HttpResponse:
    query = _query_of(request)
    incidents = report.incidents_of(query.begins, query.ends, query.owner)
    summary = report.reviewed(incidents, query.begins, query.ends)
    said = report.notes(query.begins, query.ends, incidents)
    text = report.markdown(summary, incidents, said, query.begins, query.ends)
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


def _query_of(request: HttpRequest) -> ReviewQuery:
    parameters = dict(request.GET.lists())
    owner = single(parameters, "owner", "")
    ends = (single(parameters, "from", WEEK), single(parameters, "to", DEFAULT_TO))
    return ReviewQuery(parse(*ends, time.time_ns()), owner if NAME.matches(owner) else "")


def _row(incident: Incident) -> dict[str, Any]:
    return {
        "incident": incident,
        "href": reverse("incident", args=[incident.pk]),
        "title": report.subject(incident),
        "severity": SEVERITIES[incident.severity],
        "status": STATUSES[incident.status],
        "lasted_s": ((incident.resolved_at or timezone.now()) - incident.opened_at).total_seconds(),
    }
