"""Decides which process leads, by a database row. One UPDATE decides, so SQLite and PostgreSQL behave alike."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from controlplane.slo.models import Lease


class LeaseLostError(Exception):
    """Permanent: another process holds the lease."""


def take(name: str, holder: str, now: datetime, lasts: timedelta) -> int:
    """Take or renew the lease until `now + lasts`. Returns its generation, or 0 if another process holds it.

    Clocks of the holders should agree to well under `lasts`. Even if they do not, `fence` lets only one write.
    """
    if not _taken(name, holder, now, lasts):
        return 0
    generations = Lease.objects.filter(name=name, holder=holder).values_list("generation", flat=True)
    return generations.first() or 0


def fence(name: str, holder: str, generation: int) -> None:
    """Call first in a transaction that only the holder may write: the lease cannot change hands until it ends.

    Raises LeaseLostError if the lease has another generation by now.
    """
    if not Lease.objects.filter(name=name, holder=holder, generation=generation).update(holder=holder):
        raise LeaseLostError(f"{name}: generation {generation} of {holder} is over, another leads")


def _taken(name: str, holder: str, now: datetime, lasts: timedelta) -> bool:
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
