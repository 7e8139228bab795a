"""Decides which process leads, by a database row. One UPDATE decides, so SQLite and PostgreSQL behave alike.

A generation is a fencing token (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html): whoever has seen a higher
one refuses it. It is the last one plus 1, or the seconds since ERA where that is more, so that it also grows where the row was
lost or restored from a backup (a hybrid logical clock: Kulkarni et al., 2014). docs/loop.md has the reasoning.
"""

import threading
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest

from controlplane.core.models import Lease
from controlplane.core.reported import unchanged_s

ERA = datetime(2025, 1, 1, tzinfo=UTC)
MAX_GENERATION = 2**31 - 1 - 1_000
"""The highest generation: clusters keep it in 32 bits, which lasts until 2093."""

_RENEWAL = threading.Lock()
"""Two threads of a process may renew its lease. Together they must not take it twice."""
_LAST: dict[tuple[str, str], int] = {}
"""The last generation of this process, by name and holder."""


class LeaseLostError(Exception):
    """Permanent: another process holds the lease."""


def take(name: str, holder: str, now: datetime, lasts: timedelta) -> int:
    """Take or renew the lease until `now + lasts`. Returns its generation, or 0 if another process holds it.

    Clocks of the holders should agree to well under `lasts`. Even if they do not, `fence` lets only one write, and generations grow. A
    holder whose clock was ahead, and that has not renewed its lease for `lasts`, does not keep others out until then.
    """
    with _RENEWAL:
        if not _taken(name, holder, now, lasts):
            return 0
        generation, last = generation_of(name, holder), _LAST.get((name, holder), 0)
        if generation < last:  # the row was restored from a backup of the time when this process led before
            generation = raise_above(name, last, now)
        _LAST[name, holder] = generation
        return generation


def generation_of(name: str, holder: str | None = None) -> int:
    """Of the last process that took the lease; 0 where none did, or another than `holder`."""
    rows = Lease.objects.filter(name=name) if holder is None else Lease.objects.filter(name=name, holder=holder)
    return rows.values_list("generation", flat=True).first() or 0


def raise_above(name: str, generation: int, now: datetime) -> int:
    """Have the holder go on with a higher generation than this, from the moment that it renews the lease. Returns the lease's."""
    higher = max(generation + 1, _clock(now))
    Lease.objects.get_or_create(name=name, defaults={"holder": "", "expires_at": now})
    Lease.objects.filter(name=name, generation__lt=higher).update(generation=higher)
    return generation_of(name)


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
    left = _left_behind(name, holder, lasts)
    free = Lease.objects.filter(Q(holder=holder) | Q(expires_at__lte=now) | left, name=name)
    if free.update(holder=holder, expires_at=now + lasts, generation=Greatest(F("generation") + 1, Value(_clock(now)))):
        return True
    if Lease.objects.filter(name=name).exists():
        return False
    try:
        with transaction.atomic():
            Lease.objects.create(name=name, holder=holder, expires_at=now + lasts, generation=max(1, _clock(now)))
    except IntegrityError:  # another was first
        return False
    return True


def _left_behind(name: str, holder: str, lasts: timedelta) -> Q:
    """Selects the lease where this process has seen it stand still for as long as it lasts."""
    seen = Lease.objects.filter(name=name).values_list("generation", "expires_at").first()
    if seen is None or unchanged_s(f"lease {name} for {holder}", seen) <= lasts.total_seconds():
        return Q(pk=None)
    return Q(generation=seen[0], expires_at=seen[1])


def _clock(now: datetime) -> int:
    """Whole seconds since ERA."""
    return int((now - ERA).total_seconds())


def give_up(name: str, holder: str, now: datetime) -> None:
    """Let another lead at once."""
    Lease.objects.filter(name=name, holder=holder).update(expires_at=now)
