"""Make and end silences."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError

from controlplane.incidents import live
from controlplane.incidents.models import Incident, SilenceRecord

LONGEST = timedelta(days=92)
MOST_MATCHERS = 20


def add(matchers: Sequence[str], starts_at: datetime, ends_at: datetime, author: str, reason: str) -> SilenceRecord:
    """Raises ValidationError, by field."""
    made = SilenceRecord(
        matchers=list(matchers), starts_at=starts_at, ends_at=ends_at, author=author[:200], reason=reason.strip()
    )
    if ends_at - starts_at > LONGEST:
        raise ValidationError(
            {"ends_at": [f"A silence lasts at most {LONGEST.days} days: change the objective instead."]}
        )
    if len(matchers) > MOST_MATCHERS:
        raise ValidationError({"matchers": [f"Give at most {MOST_MATCHERS} matchers."]})
    made.full_clean()
    made.save()
    live.changed()
    return made


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
