"""A reader misses no change that another transaction writes, and reads those of a job in their order."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from django.db import close_old_connections, connection, transaction

from controlplane.lane.core import states
from controlplane.lane.models import Worker
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import changes, claims
from tests.support.lane.stored import TENANT, new_job

pytestmark = pytest.mark.django_db(transaction=True)


def apart(call: Callable[[], object]) -> Thread:
    """The call, on a connection of its own."""

    def run() -> None:
        try:
            call()
        finally:
            close_old_connections()
            connection.close()

    thread = Thread(target=run)
    thread.start()
    return thread


def test_what_is_written_late_is_read_late_and_nothing_is_missed(home: Path) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    objects, began, may_go = Folder(home / "lane"), Event(), Event()
    new_job(objects)
    at = changes.newest()

    def claim_late() -> None:
        """Its transaction is older than that of the job that it claims."""
        with transaction.atomic():
            worker = Worker.objects.create(id=claims.new_id(), leased_until=claims.now() + claims.LEASE).pk
            began.set()
            assert may_go.wait(30)
            assert len(claims.claim(worker, 0, soonest=2)) == 2

    late = apart(claim_late)
    assert began.wait(30)
    job = new_job(objects)
    assert changes.between(TENANT, at, changes.newest(), 10) == [], "an older transaction may still write"
    may_go.set()
    late.join()
    rows = changes.between(TENANT, at, changes.newest(), 10)
    assert [row.status for row in rows if row.batch_id == job.pk] == [states.QUEUED, states.IN_PROGRESS]
    assert len(rows) == 3
