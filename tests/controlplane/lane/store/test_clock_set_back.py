"""What was written by a clock that was ahead holds nothing up once the clock is right."""

from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from controlplane.incidents.notify.delivery.core.retry import Answer
from controlplane.lane.core import states
from controlplane.lane.core.states import Again
from controlplane.lane.models import Batch, Callback, Line, Worker
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, callbacks, chores, claims
from controlplane.lane.store.callbacks import POLICY
from controlplane.lane.store.claims import Result
from tests.support.lane.stored import begun, new_batch, new_job

pytestmark = pytest.mark.django_db
AHEAD = timedelta(hours=1)


@pytest.fixture
def objects(home: Path) -> Folder:
    return Folder(home / "lane")


def test_a_worker_that_renews_nothing_is_over_whatever_its_lease_says(objects: Folder) -> None:
    batch, worker = begun(objects, 1), claims.register()
    assert claims.claim(worker, 1)
    Worker.objects.update(leased_until=claims.now() + AHEAD)
    with patch("controlplane.core.reported.time.monotonic") as monotonic:
        monotonic.return_value = 0.0
        assert claims.take_over() == 0
        monotonic.return_value = claims.LEASE.total_seconds()
        assert claims.take_over() == 0
        claims.renew(worker)
        monotonic.return_value += 1.0
        assert claims.take_over() == 0, "it lives"
        monotonic.return_value += claims.LEASE.total_seconds() + 1.0
        assert claims.take_over() == 1
    assert Line.objects.get(batch=batch).state == states.WAITING


def test_a_line_that_waits_to_be_tried_again_waits_no_longer_than_any_may(objects: Folder) -> None:
    begun(objects, 1)
    worker = claims.register()
    [line] = claims.claim(worker, 1)
    claims.commit([Result(line, Again(states.MAX_WAIT_S))])
    assert claims.claim(worker, 1) == []
    Line.objects.update(not_before=claims.now() + AHEAD)
    assert len(claims.claim(worker, 1)) == 1


def test_a_chore_that_nobody_does_is_taken(objects: Folder) -> None:
    new_batch(objects, b"x")
    assert chores.next_chore() is not None
    assert chores.next_chore() is None
    Batch.objects.update(chore_until=claims.now() + AHEAD)
    assert chores.next_chore() is not None


def test_a_webhook_is_sent(objects: Folder) -> None:
    job = new_job(objects)
    batches.cancel(job.tenant, job.name, job.kind)
    [mine] = callbacks.claim(POLICY, 1, {})
    callbacks.settle(mine, Answer(429, retry_after_s=1e6), POLICY, 1.0)
    assert callbacks.claim(POLICY, 1, {}) == [], "for as long as any may wait"
    Callback.objects.update(due_at=claims.now() + AHEAD)
    assert len(callbacks.claim(POLICY, 1, {})) == 1
