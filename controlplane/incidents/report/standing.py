"""Says how an incident stands: whether somebody was notified of it, and why not.

It is computed for each answer, from the incident, the silences and the outbox, and so does not wait for the controller's next tick.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from controlplane.incidents.core.silences import Silence, Subject, silencing
from controlplane.incidents.decide import rows
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.core.notice import SENT_AS
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core import reach
from controlplane.incidents.report.timeline import keys
from controlplane.slo.core.windows import Severity

Kind = Literal["withheld", "nobody", "failed", "queued", "delivered", "waiting"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`said`: a sentence without its full stop. `silence`: the silence that covers it now, in words; empty without one."""

    kind: Kind
    said: str
    silence: str = ""


def standings(incidents: Collection[Incident], now: datetime) -> Mapping[int, Standing]:
    """By the incident's number."""
    records = list(SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now))
    silences = [record.value() for record in records]
    words = {str(record.pk): rows.silenced(record) for record in records}
    reached = outbox.reach_of([key for incident in incidents for key in keys(incident)])
    return {
        incident.pk: standing(incident, reached[incident.notice_key], silences, words, now)
        if incident.is_open
        else past_standing(incident, [reached[key] for key in keys(incident)])
        for incident in incidents
    }


def silences_of(subjects: Sequence[Subject], now: datetime) -> list[str]:
    """A sentence for each silence that covers one of these now: what of an objective nobody is notified of, and until when."""
    said = []
    for record in SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now).order_by("ends_at"):
        value = record.value()
        kinds = [f"{subject.severity}s" for subject in subjects if value.covers(subject, now)]
        if kinds:
            said.append(f"{' and '.join(kinds)} are {rows.silenced(record)}")
    return said


def past_standing(incident: Incident, reached: Sequence[reach.Reach]) -> Standing:
    """Of a resolved incident: what became of the triggers of its latest key that has any."""
    latest = next((of_key for of_key in reversed(reached) if of_key.state != "nobody"), None)
    outcome = _outcome(latest) if latest else None
    return outcome or Standing("withheld", "Nobody was notified of it")


def standing(
    incident: Incident, reached: reach.Reach, silences: Sequence[Silence], words: Mapping[str, str], now: datetime
) -> Standing:
    """`words`: the text of each silence, by its id."""
    outcome = None
    if incident.queued_as:
        no_destination = reach.no_destination(SENT_AS[cast(Severity, incident.queued_as)])
        outcome = _outcome(reached) or Standing("nobody", f"Nobody was notified: {no_destination}")
    silence = silencing(silences, rows.subject(incident), now)
    if silence is not None:
        why = words[silence.id]
        if outcome is None:
            return Standing("withheld", f"Nobody is notified: {why}", why)
        return Standing(outcome.kind, f"{outcome.said}. From now on only its end is sent: {why}", why)
    withheld = rows.withheld(incident)
    if withheld is not None and withheld.kind == "silenced":
        return outcome or Standing("waiting", "The silence has ended: it is sent at the next tick if it still fires")
    if withheld is not None:
        before = f"{outcome.said}. " if outcome else ""
        return Standing("nobody" if withheld.kind == "nobody" else "withheld", before + rows.not_sent(withheld))
    return outcome or Standing("waiting", "Not sent yet: the next tick sends it if it still fires")


def _outcome(reached: reach.Reach) -> Standing | None:
    """What became of its notices in the outbox; None where there are none."""
    at = f"{reached.at:%H:%M:%S} UTC" if reached.at else ""
    match reached.state:
        case "delivered":
            return Standing("delivered", f"Delivered to {reached.to} at {at}")
        case "queued":
            return Standing("queued", f"Queued for {reached.to} since {at}, not accepted yet{reached.because}")
        case "failed":
            return Standing("failed", f"Nobody was notified: {reached.to} refused it{reached.because}")
    return None
