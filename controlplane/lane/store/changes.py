"""That a batch or job stands otherwise than before: each change is written with it, and read by its tenant in the order of writing.

A reader that has read up to a position has missed nothing below it. SQLite has one writer at a time, so ids are in the order of commits.
PostgreSQL's are not: there changes are ordered by their transaction first, and are read once all that began before it have ended. Those of
one batch are in its own order, whichever of their transactions began first.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import BigIntegerField, Func, Q, Value

from controlplane.lane.models import Batch, Callback, Change

KEPT = timedelta(days=7)


class Position(NamedTuple):
    """What is at or below it was read."""

    transaction: int
    change: int

    @property
    def below(self) -> Q:
        return Q(transaction__lt=self.transaction) | Q(transaction=self.transaction, pk__lte=self.change)


BEGIN = Position(-1, 0)


class _Transaction(Func):
    """The present one, or a later one that has changed the same batch. SQLite needs none."""

    template = (
        "greatest(pg_current_xact_id()::text::bigint, "
        "(SELECT max(transaction) FROM lane_change WHERE batch_id = %(expressions)s))"
    )
    output_field = BigIntegerField()

    def __init__(self, batch: int) -> None:
        super().__init__(Value(batch))

    def as_sqlite(self, *_: Any, **__: Any) -> tuple[str, tuple[()]]:
        return "0", ()


def write(batch: Batch, at: datetime, status: str = "") -> None:
    """In the transaction of the change, which holds the batch; its webhook too, if this is its end. `status` is as clients read it, where
    that is not the batch's.
    """
    Change.objects.create(
        transaction=_Transaction(batch.pk), batch=batch, tenant=batch.tenant, status=status or batch.status, at=at
    )
    if batch.ended_at is not None and batch.callback_url:
        Callback.objects.create(job=batch, due_at=at)


def newest() -> Position:
    """All that is below it can be read, and nothing more comes below it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            return Position(cursor.fetchone()[0], 0)
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", ["lane_change"])
        row = cursor.fetchone()
        return Position(0, row[0] if row else 0)


def between(tenant: str, at: Position, until: Position, limit: int, batch: Batch | None = None) -> Sequence[Change]:
    """With their batches, the first of them: at most so many. Of this batch alone, if it is given."""
    rows = Change.objects.filter(until.below, ~at.below, tenant=tenant)
    if batch is not None:
        rows = rows.filter(batch=batch)
    return list(rows.select_related("batch").order_by("transaction", "pk")[:limit])


def is_over(batch: Batch, at: Position) -> bool:
    """Whether nothing can come beyond `at`: it had ended when it was read, and its end was written at or below, or is not kept any more."""
    its_end = Change.objects.filter(~at.below, batch=batch, status=batch.status)
    return batch.ended_at is not None and not its_end.exists()


def sweep(now: datetime) -> None:
    Change.objects.filter(at__lt=now - KEPT).delete()
