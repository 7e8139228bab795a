"""Make and end silences."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError

from controlplane.incidents import live
from controlplane.incidents.models import Incident, SilenceRecord

LONGEST = timedelta(days=92)
MOST_MATCHERS = 20


def change(silence: SilenceRecord, ends_at: datetime | None, reason: str | None) -> None:
    """Raises ValidationError, by field."""
    if reason is not None:
        silence.reason = reason.strip()
    if ends_at is not None:
        silence.ends_at = ends_at
    _keep(silence)


def add(matchers: Sequence[str], starts_at: datetime, ends_at: datetime, author: str, reason: str) -> SilenceRecord:
    """Raises ValidationError, by field."""
    made = SilenceRecord(
        matchers=list(matchers), starts_at=starts_at, ends_at=ends_at, author=author[:200], reason=reason.strip()
    )
    _keep(made)
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


def end(silence: SilenceRecord, now: datetime) -> bool:
    """Now, or before it began; False where it was over already."""
    if silence.ends_at <= now:
        return False
    silence.ends_at = max(now, silence.starts_at)
    silence.save(update_fields=["ends_at"])
    live.changed()
    return True


def hidden(silence: SilenceRecord) -> int:
    """Open incidents that nobody is told of because of it."""
    open_ones = Incident.objects.exclude(status=Incident.Status.RESOLVED)
    return open_ones.filter(withheld="silenced", withheld_by=str(silence.pk)).count()
