"""Finds open pages that nobody was notified of. Every page of the dashboard names them, and the heartbeat stops."""

from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane.core.formatting import TEXT
from controlplane.incidents.decide import rows
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.core.notice import SENT_AS
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core import reach

LATE = timedelta(minutes=2)
"""After so long without a destination that accepts it, nobody counts as notified. Attempts go on."""


class NotNotified(NamedTuple):
    incident: Incident
    why: str  # a part of a sentence


def pages(now: datetime) -> list[NotNotified]:
    """Open pages that nobody has acknowledged and no destination has accepted; the oldest first."""
    incidents = list(
        Incident.objects.filter(
            status=Incident.Status.OPEN, severity=Incident.Severity.PAGE, withheld__in=rows.SHOULD_NOTIFY
        ).order_by("opened_at", "id")
    )
    reached = outbox.reach_of([incident.notice_key for incident in incidents]) if incidents else {}
    judged = [(incident, why_not_notified(incident, reached[incident.notice_key], now)) for incident in incidents]
    return [NotNotified(incident, why) for incident, why in judged if why]


def sentences(now: datetime) -> list[str]:
    """For the log, and for the thread that sends the heartbeat."""
    return [f"#{page.incident.pk}: {page.why}" for page in pages(now)]


def why_not_notified(incident: Incident, reached: reach.Reach, now: datetime) -> str:
    """Empty where a destination has accepted it, or may soon."""
    withheld = rows.withheld(incident)
    if withheld is not None:
        return rows.why_withheld(withheld) if withheld.kind == "nobody" else ""
    if not incident.queued_as:
        return ""  # the next tick sends it
    return undelivered(reached, now)


def undelivered(reached: reach.Reach, now: datetime) -> str:
    """Why a page in the outbox notified nobody; empty where it did, or may soon."""
    match reached.state:
        case "failed":
            return f"{reached.to} refused it{reached.because}. Put the cause right, then send it again in Admin → Alert → Deliveries"
        case "nobody":
            return f"nobody was notified: {reach.no_destination(SENT_AS['page'])}"
        case "queued" if reached.at is not None and now - reached.at > LATE:
            waited = TEXT.duration((now - reached.at).total_seconds())
            return f"{reached.to} has not accepted it for {waited}{reached.because}. Weir keeps trying"
    return ""
