"""How a tenant's batches and jobs come to stand, for whoever reads it, by server-sent events (`http/feed.py`) or a web socket
(`sockets.py`).

A reader asks the database for what is beyond its place, and for no more before that is written: so one that is slow holds nothing.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from controlplane.lane.core import feed, states
from controlplane.lane.core.feed import Cursor, Event
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.models import Batch, Change
from controlplane.lane.store import batches, changes, claims
from controlplane.lane.store.changes import BEGIN, Position
from controlplane.lane.store.files import NotThereError
from controlplane.lane.store.limits import FullError

URLS = {states.JOB: "/v1/jobs", states.BATCH: "/v1/batches", states.RESPONSE: "/v1/responses"}
ALL_URL = "/v1/jobs/events"
POLL_S = 1.0
_CHANGES, _RUNNING = 1_000, 100  # changes at a time, and batches of a tenant whose progress is told
_READERS, _READERS_OF_TENANT = 256, 32  # of this process
_LASTS_S = 600.0
"""After so long a client has to come again, so that its key is looked at."""


class Readers:
    """Those of this process."""

    def __init__(self) -> None:
        self._readers: Counter[str] = Counter()

    @contextmanager
    def another(self, tenant: str) -> Iterator[None]:
        """Raises FullError."""
        if self._readers.total() >= _READERS or self._readers[tenant] >= _READERS_OF_TENANT:
            raise FullError("Too many streams of events are read at a time: end one.", "too_many_streams")
        self._readers[tenant] += 1
        try:
            yield
        finally:
            self._readers[tenant] -= 1


class Reader:
    """Where a client is. Each event is of a row that is the tenant's when it is read."""

    def __init__(self, tenant: str, kind: str, name: str, after: str) -> None:
        """Of the batch or job of this kind and name, or, without a name, of all that is the tenant's, after the event of the id `after`, if
        it is given. Raises NotThereError, RefusedError.
        """
        cursor = feed.cursor_of(after)
        if after and cursor is None:
            raise RefusedError("The event to go on after is not the id of one from here.", "Last-Event-ID")
        self._tenant, self._kind, self._name = tenant, kind, name
        self._until_s = time.monotonic() + _LASTS_S
        self._counts: dict[int, tuple[int, int]] = {}  # of the batches that run, as they were told
        self._first: list[Event] = []
        at, newest = claims.now(), changes.newest()
        batch = batches.get(tenant, name, kind) if name else None
        if cursor is None:
            self._at = BEGIN if batch is not None else newest
            self._cursor = Cursor(*self._at, int(at.timestamp()))
            self._first = [Event("open", {}, self._cursor)]
            return
        self._at, self._cursor = Position(cursor.transaction, cursor.change), cursor
        if cursor.at < (at - changes.KEPT).timestamp() or self._at > newest:
            self._at = newest
            self._cursor = Cursor(*newest, int(at.timestamp()))
            message = "What followed the last event is not kept any more: look how your batches and jobs stand."
            self._first = [Event("missed", {"message": message}, self._cursor)]

    def idle(self) -> Event:
        return Event("", {}, self._cursor)

    def read(self, *, stops: bool = False) -> tuple[list[Event], bool]:
        """What there is to say, and whether that was all. In a thread."""
        out, self._first = self._first, []
        at, batch = claims.now(), None
        if self._name:
            try:
                batch = batches.get(self._tenant, self._name, self._kind)
            except NotThereError:
                return self._end(out, "deleted")
        out += self._progress(batch, at)  # before changes are read: so none follows the event that no more lines run
        newest = changes.newest()
        rows = changes.between(self._tenant, self._at, newest, _CHANGES, batch)
        out += [self._passed_on(row) for row in rows]
        if len(rows) < _CHANGES:
            self._at = max(self._at, newest)
            self._cursor = Cursor(*self._at, int(at.timestamp()))
        if batch is not None and changes.is_over(batch, self._at):
            return self._end(out, "ended")
        return self._end(out, "again") if stops or time.monotonic() > self._until_s else (out, False)

    def _passed_on(self, row: Change) -> Event:
        at, batch = int(row.at.timestamp()), row.batch
        self._at, self._cursor = Position(row.transaction, row.pk), Cursor(row.transaction, row.pk, at)
        event = feed.event(batch.kind, batch.name, row.status, batch.metadata, at)
        return Event(event["type"], event, self._cursor)

    def _progress(self, batch: Batch | None, now: datetime) -> list[Event]:
        """Of batches that run and have other counts than were told."""
        if batch is None:
            rows = Batch.objects.filter(kind=states.BATCH, tenant=self._tenant, status=states.IN_PROGRESS)
            running = list(rows.order_by("-pk")[:_RUNNING])
        else:
            running = [batch] if (batch.kind, batch.status) == (states.BATCH, states.IN_PROGRESS) else []
        before, self._counts = self._counts, {row.pk: (row.completed, row.failed) for row in running}
        out = []
        for row in (row for row in running if before.get(row.pk) != self._counts[row.pk]):
            ends_at = row.ends_at(now)
            expected = round(ends_at.timestamp()) if ends_at else None
            event = feed.progress(row.name, row.counts(), expected, int(now.timestamp()))
            out.append(Event(event["type"], event))
        return out

    def _end(self, out: list[Event], reason: str) -> tuple[list[Event], bool]:
        return [*out, Event("end", {"reason": reason}, self._cursor)], True
