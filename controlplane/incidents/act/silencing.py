"""Make and end silences. Each takes effect on open incidents in the same transaction; the next tick sends what is no longer silenced."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from controlplane.incidents.decide import rows
from controlplane.incidents.decide.core.silences import silencing
from controlplane.incidents.decide.core.steps import Withheld
from controlplane.incidents.models import Entry, Incident, SilenceRecord
from controlplane.incidents.notify import live

LONGEST = timedelta(days=92)
MOST_MATCHERS = 20


@transaction.atomic
def change(silence: SilenceRecord, ends_at: datetime | None, reason: str | None, by: str = "") -> None:
    """Raises ValidationError, by field."""
    if reason is not None:
        silence.reason = reason.strip()
    if ends_at is not None:
        silence.ends_at = ends_at
    _keep(silence)
    apply(timezone.now(), by or silence.author)


@transaction.atomic
def add(matchers: Sequence[str], starts_at: datetime, ends_at: datetime, author: str, reason: str) -> SilenceRecord:
    """Raises ValidationError, by field."""
    made = SilenceRecord(
        matchers=list(matchers), starts_at=starts_at, ends_at=ends_at, author=author[:200], reason=reason.strip()
    )
    _keep(made)
    apply(timezone.now(), made.author, made)
    return made


def _keep(silence: SilenceRecord) -> None:
    if silence.ends_at - silence.starts_at > LONGEST:
        longest = f"A silence lasts at most {LONGEST.days} days: change the objective instead."
        raise ValidationError({"ends_at": [longest]})
    if len(silence.matchers) > MOST_MATCHERS:
        raise ValidationError({"matchers": [f"Give at most {MOST_MATCHERS} matchers."]})
    silence.full_clean()
    silence.save()
    live.changed()


@transaction.atomic
def end(silence: SilenceRecord, now: datetime, by: str = "") -> bool:
    """Now, or before it began; False where it was over already."""
    if silence.ends_at <= now:
        return False
    silence.ends_at = max(now, silence.starts_at)
    silence.save(update_fields=["ends_at"])
    apply(now, by or silence.author)
    live.changed()
    return True


def apply(now: datetime, by: str, made: SilenceRecord | None = None) -> None:
    """Bring open incidents up to date with the silences that hold `now`, as the next tick would. Call inside a transaction.

    What was told already stays told; that `made` silences it now is written into its timeline.
    """
    silences, name = rows.silences(now), by[:200]
    for incident in [*rows.of_objectives(lock=True).values(), *rows.component_remedies(lock=True).values()]:
        silence = silencing(silences, rows.subject(incident), now)
        was = incident.withheld_by if incident.withheld == "silenced" else ""
        untold = incident.told != incident.severity
        if untold and silence is not None and incident.withheld in ("", "silenced", "nobody") and was != silence.id:
            incident.withheld, incident.withheld_by = "silenced", silence.id
            _write(incident, Entry.Kind.HELD, f"{_sentence(rows.withheld(incident))}.", name, now)
        elif untold and silence is None and was:
            incident.withheld = incident.withheld_by = ""
            said = "Its silence is over: the next tick sends it, if it still fires."
            _write(incident, Entry.Kind.RELEASED, said, name, now)
        elif not untold and made is not None and silence is not None and silence.id == str(made.pk):
            said = f"{rows.silenced(made)}. Who was told of it is told of its end, and nobody of anything else."
            _write(incident, Entry.Kind.HELD, f"{said[:1].upper()}{said[1:]}", name, now)


def _sentence(withheld: Withheld | None) -> str:
    return rows.untold(withheld) if withheld else ""


def _write(incident: Incident, kind: Entry.Kind, said: str, by: str, now: datetime) -> None:
    incident.save(update_fields=["withheld", "withheld_by"])
    incident.entries.create(at=now, kind=kind, by=by, text=said)


def hidden(silence: SilenceRecord, open_ones: Iterable[Incident] | None = None) -> int:
    """How many open incidents it covers now. `open_ones`: all that are open, where the caller has them."""
    value, now = silence.value(), timezone.now()
    if open_ones is None:
        open_ones = Incident.objects.exclude(status=Incident.Status.RESOLVED)
    return sum(value.covers(rows.subject(one), now) for one in open_ones)
