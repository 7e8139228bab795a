"""Makes, changes and ends silences. Open incidents follow in the same transaction; the next tick sends what is no longer silenced."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from controlplane.accounts.rights import Guard, unguarded
from controlplane.core.formatting import capitalised
from controlplane.incidents.act import existing
from controlplane.incidents.core.silences import silencing
from controlplane.incidents.decide import rows
from controlplane.incidents.decide.core.steps import Withheld
from controlplane.incidents.models import Entry, Incident, SilenceRecord
from controlplane.incidents.notify import live


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
def add(
    matchers: Sequence[str],
    starts_at: datetime,
    ends_at: datetime,
    author: str,
    reason: str,
    guard: Guard = unguarded,
) -> SilenceRecord:
    """`guard` refuses one that its author may not make. Raises ValidationError, by field."""
    made = SilenceRecord(
        matchers=list(matchers), starts_at=starts_at, ends_at=ends_at, author=author[:200], reason=reason.strip()
    )
    _keep(made)
    existing.check(made.matchers, existing.existing())
    guard(made)
    apply(timezone.now(), made.author, made)
    return made


def _keep(silence: SilenceRecord) -> None:
    silence.full_clean()
    silence.save()
    live.changed()


@transaction.atomic
def end(silence: SilenceRecord, now: datetime, by: str = "") -> bool:
    """End it now, or before it begins. False where it was over already."""
    if silence.ends_at <= now:
        return False
    silence.ends_at = max(now, silence.starts_at)
    silence.save(update_fields=["ends_at"])
    apply(now, by or silence.author)
    live.changed()
    return True


def apply(now: datetime, by: str, made: SilenceRecord | None = None) -> None:
    """Bring open incidents up to date with the silences in force, as the next tick would. Call inside a transaction.

    What was sent already stays sent; that `made` silences it from now on is written into its timeline.
    """
    silences, name = rows.silences(now), by[:200]
    for incident in [*rows.of_objectives(lock=True).values(), *rows.of_components(lock=True).values()]:
        silence = silencing(silences, rows.subject(incident), now)
        was = incident.withheld_by if incident.withheld == "silenced" else ""
        is_unsent = incident.queued_as != incident.severity
        if is_unsent and silence is not None and incident.withheld in ("", "silenced", "nobody") and was != silence.id:
            incident.withheld, incident.withheld_by = "silenced", silence.id
            _write(incident, Entry.Kind.WITHHELD, f"{rows.not_sent(Withheld('silenced', silence.id))}.", name, now)
        elif is_unsent and silence is None and was:
            incident.withheld = incident.withheld_by = ""
            said = "Its silence is over. The next tick sends it if it still fires."
            _write(incident, Entry.Kind.RELEASED, said, name, now)
        elif not is_unsent and made is not None and silence is not None and silence.id == str(made.pk):
            said = f"{rows.silenced(made)}. Its destinations will be notified only when it resolves."
            _write(incident, Entry.Kind.WITHHELD, capitalised(said), name, now)


def _write(incident: Incident, kind: Entry.Kind, said: str, by: str, now: datetime) -> None:
    incident.save(update_fields=["withheld", "withheld_by"])
    incident.entries.create(at=now, kind=kind, by=by, text=said)


def hidden(silence: SilenceRecord, open_ones: Iterable[Incident] | None = None) -> int:
    """How many open incidents it covers now. `open_ones`: all open incidents, if the caller has them."""
    value, now = silence.value(), timezone.now()
    if open_ones is None:
        open_ones = Incident.open_ones()
    return sum(value.covers(rows.subject(incident), now) for incident in open_ones)
