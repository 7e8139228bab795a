"""Who leads: a database row that says who, and until when. Works on SQLite and PostgreSQL alike, because one UPDATE decides."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from controlplane.slo.models import Lease


def take(name: str, holder: str, now: datetime, lasts: timedelta) -> bool:
    """Take the lease, or keep it: whether `holder` has it until `now + lasts`. Nobody else can have it until then.

    Clocks of the holders must agree to well under `lasts`.
    """
    mine = Lease.objects.filter(name=name, holder=holder, expires_at__gt=now).update(expires_at=now + lasts)
    if mine:
        return True
    free = Lease.objects.filter(Q(holder=holder) | Q(expires_at__lte=now), name=name)
    if free.update(holder=holder, expires_at=now + lasts, generation=F("generation") + 1):
        return True
    if Lease.objects.filter(name=name).exists():
        return False
    try:
        with transaction.atomic():
            Lease.objects.create(name=name, holder=holder, expires_at=now + lasts, generation=1)
    except IntegrityError:  # another was first
        return False
    return True


def give_up(name: str, holder: str, now: datetime) -> None:
    """Let another lead at once."""
    Lease.objects.filter(name=name, holder=holder).update(expires_at=now)
