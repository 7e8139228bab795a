"""What holds of an incident at this moment, as pages say it: whether somebody heard of it, and what keeps it from being sent.

Worked out anew for each answer, from the incident, the silences and the outbox: what it says does not wait for the controller.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from controlplane.incidents.decide import rows
from controlplane.incidents.decide.core.silences import Silence, silencing
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core import reach
from controlplane.incidents.report.timeline import keys

Kind = Literal["held", "nobody", "failed", "queued", "delivered", "waiting"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`said`: a sentence without its full stop. `silence`: in words, where one covers it now; empty: none."""

    kind: Kind
    said: str
    silence: str = ""


def standings(incidents: Collection[Incident], now: datetime) -> Mapping[int, Standing]:
    """By the incident's number."""
    records = list(SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now))
    silences = [one.value() for one in records]
    words = {str(one.pk): rows.silenced(one) for one in records}
    reached = outbox.reach_of([key for one in incidents for key in keys(one)])
    return {
        one.pk: standing(one, reached[one.notice_key], silences, words, now)
        if one.is_open
        else was(one, [reached[key] for key in keys(one)])
        for one in incidents
    }


def was(incident: Incident, reached: Sequence[reach.Reach]) -> Standing:
    """Of one that is over: the latest of its keys of which something became of its triggers."""
    found = next((one for one in reversed(reached) if one.state != "nobody"), None)
    told = _told(found) if found else None
    return told or Standing("held", "Nobody was told of it")


def standing(
    incident: Incident, reached: reach.Reach, silences: Sequence[Silence], words: Mapping[str, str], now: datetime
) -> Standing:
    """`words`: of each silence, by its id."""
    told = None if not incident.told else _told(reached) or _unheard(incident)
    silence = silencing(silences, rows.subject(incident), now)
    if silence is not None:
        why = words[silence.id]
        if told is None:
            return Standing("held", f"Nobody is told: {why}", why)
        return Standing(told.kind, f"{told.said}. From now on nobody is told but of its end: {why}", why)
    withheld = rows.withheld(incident)
    if withheld is not None and withheld.kind == "silenced":
        return told or Standing("waiting", "The silence is over: it is sent at the next tick, if it still fires")
    if withheld is not None:
        before = f"{told.said}. " if told else ""
        return Standing("nobody" if withheld.kind == "nobody" else "held", before + rows.untold(withheld))
    return told or Standing("waiting", "Not sent yet: the next tick sends it, if it still fires")


def _told(reached: reach.Reach) -> Standing | None:
    """What became of what was put into the outbox; None where nothing was."""
    to = " and ".join(reached.destinations)
    at = f"{reached.at:%H:%M:%S} UTC" if reached.at else ""
    because = f" ({reached.error})" if reached.error else ""
    match reached.state:
        case "delivered":
            return Standing("delivered", f"Delivered to {to} at {at}")
        case "queued":
            return Standing("queued", f"Queued for {to} since {at}, and not accepted yet{because}")
        case "failed":
            return Standing("failed", f"Nobody was notified: {to} refused it{because}")
    return None


def _unheard(incident: Incident) -> Standing:
    severity = "critical" if incident.told == Incident.Severity.PAGE else "warning"
    return Standing("nobody", f"Nobody was notified: {reach.no_destination(severity)}")
