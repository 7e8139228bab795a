"""The outbox of webhooks: each is claimed by one sender at a time, and by another once that is late."""

from datetime import timedelta
from pathlib import Path

import pytest

from controlplane.incidents.notify.delivery.core.retry import Answer
from controlplane.lane.models import Callback
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, callbacks, claims
from controlplane.lane.store.callbacks import POLICY
from tests.support.lane.stored import new_job

pytestmark = pytest.mark.django_db


def test_a_sender_that_is_late_settles_nothing(home: Path) -> None:
    job = new_job(Folder(home / "lane"))
    assert callbacks.claim(POLICY, 10, {}) == []
    batches.cancel(job.tenant, job.name, job.kind)
    assert callbacks.claim(POLICY, 10, {job.tenant: callbacks.PER_TENANT}) == [], "the tenant has its places"
    [late] = callbacks.claim(POLICY, 10, {})
    assert callbacks.claim(POLICY, 10, {}) == []
    Callback.objects.update(due_at=claims.now() - timedelta(seconds=1))
    [mine] = callbacks.claim(POLICY, 10, {})
    callbacks.settle(late, Answer(404, "no such page"), POLICY, 0.0)
    row = Callback.objects.get()
    assert (row.state, row.attempts) == (Callback.State.PENDING, 2)

    callbacks.settle(mine, Answer(503, "what a receiver wrote"), POLICY, 0.0)
    row.refresh_from_db()
    assert (row.state, row.status, row.error) == (Callback.State.PENDING, 503, "")
    assert row.due_at > claims.now()
    Callback.objects.update(due_at=claims.now())
    [mine] = callbacks.claim(POLICY, 10, {})
    callbacks.settle(mine, Answer(204), POLICY, 0.0)
    callbacks.settle(mine, Answer(None, "lost"), POLICY, 0.0)
    row.refresh_from_db()
    assert (row.state, row.status) == (Callback.State.DELIVERED, 204)
