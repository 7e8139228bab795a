"""Who leads: a database row that says who, and until when. Works on SQLite and PostgreSQL alike, because one UPDATE decides."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from controlplane.slo.models import Lease


class LeaseLostError(Exception):
    """Another holds the lease."""


def take(name: str, holder: str, now: datetime, lasts: timedelta) -> int:
    """Take the lease, or keep it until `now + lasts`: the generation that `holder` holds it in; 0 where another does.

    Nobody else can have it until then. Clocks of the holders must agree to well under `lasts`; whatever they say, `fence`
    lets no two write.
    """
    if not _taken(name, holder, now, lasts):
        return 0
    generations = Lease.objects.filter(name=name, holder=holder).values_list("generation", flat=True)
    return generations.first() or 0


def fence(name: str, holder: str, generation: int) -> None:
    """The first statement of a transaction that only the holder may write: nobody else takes the lease until it ends.

    Raises LeaseLostError where the lease is not held in this generation any more.
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
