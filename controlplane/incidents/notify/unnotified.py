"""Open pages that reached nobody. A banner on every page names them, and the dead-man service elsewhere is no longer pinged."""

from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane.core.formatting import TEXT
from controlplane.incidents.decide import rows
from controlplane.incidents.decide.core.steps import SENT_AS
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core import reach

LATE = timedelta(minutes=2)
"""A page that no destination has accepted for so long has reached nobody. Attempts go on."""


class Unheard(NamedTuple):
    incident: Incident
    why: str  # a part of a sentence


def pages(now: datetime) -> list[Unheard]:
    """Those that are open, that nobody has acknowledged, and that no destination has accepted; the oldest first."""
    found = list(
        Incident.objects.filter(
            status=Incident.Status.OPEN, severity=Incident.Severity.PAGE, withheld__in=rows.HEARD_OF
        ).order_by("opened_at", "id")
    )
    reached = outbox.reach_of([one.notice_key for one in found]) if found else {}
    judged = [(one, why_unheard(one, reached[one.notice_key], now)) for one in found]
    return [Unheard(one, why) for one, why in judged if why]


def sentences(now: datetime) -> list[str]:
    """For logs, and for the watch that sends the heartbeat."""
    return [f"#{one.incident.pk}: {one.why}" for one in pages(now)]


def why_unheard(incident: Incident, reached: reach.Reach, now: datetime) -> str:
    """Empty where a destination has accepted it, or may be about to."""
    withheld = rows.withheld(incident)
    if withheld is not None:
        return rows.why_untold(withheld) if withheld.kind == "nobody" else ""
    if not incident.told:
        return ""  # the next tick sends it
    return undelivered(reached, now)


def undelivered(reached: reach.Reach, now: datetime) -> str:
    """Of a page that was put into the outbox."""
    to = " and ".join(reached.destinations)
    because = f" ({reached.error})" if reached.error else ""
    match reached.state:
        case "failed":
            return f"{to} refused it{because}. Put the cause right, then send it again in Admin → Paging → Deliveries"
        case "nobody":
            return f"nobody was notified: {reach.no_destination(SENT_AS['page'])}"
        case "queued" if reached.at is not None and now - reached.at > LATE:
            waited = TEXT.duration((now - reached.at).total_seconds())
            return f"{to} has not accepted it for {waited}{because}. Weir keeps trying"
    return ""
