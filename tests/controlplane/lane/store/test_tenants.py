"""Nobody sees, changes or uses what is another's, whatever they ask for."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from controlplane.lane.core import states
from controlplane.lane.core.jobs import SOONEST, NewJob
from controlplane.lane.core.lines import NewBatch
from controlplane.lane.feed import Reader
from controlplane.lane.models import Batch, StoredFile
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, claims, events, files, jobs
from controlplane.lane.store.files import NotThereError
from tests.support.lane.stored import KEY, begun, do_chores, new_job, upload

TENANTS = ("alice", "bob")


def attempts(tenant: str, file_id: str, name: str, response: str, objects: Folder) -> list[Callable[[], Any]]:
    kind, wanted = states.RESPONSE, NewJob(states.RESPONSE, "/v1/responses", "m", SOONEST, None, b"", previous=response)
    return [
        lambda: jobs.read(tenant, response, kind, objects),
        lambda: jobs.cancel(tenant, response, kind, objects),
        lambda: jobs.delete(tenant, response, kind, objects),
        lambda: jobs.going_on(tenant, wanted, objects),
        lambda: events.after(tenant, response, objects, events.BEGIN),
        lambda: Reader(tenant, kind, response, ""),
        lambda: Reader(tenant, states.BATCH, name, "0-0-1"),
        lambda: files.get(tenant, file_id),
        lambda: files.listed(tenant, file_id, 10, "desc", ""),
        lambda: files.delete(tenant, file_id, objects),
        lambda: batches.get(tenant, name),
        lambda: batches.listed(tenant, name, 10),
        lambda: batches.cancel(tenant, name),
        lambda: batches.create(tenant, KEY, NewBatch(file_id, "/v1/chat/completions", "24h")),
    ]


@pytest.mark.django_db
def test_who_comes_late_with_little_is_served_beside_those_with_much(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_CANDIDATES", 4)
    objects = Folder(home / "lane")
    for tenant in ("alice", "alice", "alice", "bob", "bob", "bob", "carol"):
        new_job(objects, tenant)
    names = {line.batch_name for line in claims.claim(claims.register(), 0, soonest=3)}
    assert {Batch.objects.get(name=name).tenant for name in names} == {"alice", "bob", "carol"}


@pytest.mark.django_db
def test_two_tenants_never_meet(home: Path) -> None:
    objects = Folder(home / "lane")
    for tenant in TENANTS:
        for _ in range(3):
            upload(objects, b"text", tenant)
            batches.cancel(tenant, begun(objects, 2, tenant).name)
            new_job(objects, tenant)
    do_chores(objects)
    before = [list(table.objects.order_by("pk").values()) for table in (StoredFile, Batch)]
    file_ids = {
        tenant: list(StoredFile.objects.filter(tenant=tenant).values_list("pk", flat=True)) for tenant in TENANTS
    }
    names, responses = (
        {
            tenant: list(Batch.objects.filter(tenant=tenant, kind=kind).values_list("name", flat=True))
            for tenant in TENANTS
        }
        for kind in (states.BATCH, states.RESPONSE)
    )

    for me, other in permutations(TENANTS):
        for file_id, name, response in zip(file_ids[other], names[other], responses[other], strict=False):
            for attempt in attempts(me, file_id, name, response, objects):
                with pytest.raises(NotThereError):
                    attempt()
        for limit in (1, 20):
            for order in ("asc", "desc"):
                listed = files.listed(me, "", limit, order, "")[0]
                assert listed and {row.pk for row in listed} <= set(file_ids[me])
            assert {row.name for row in batches.listed(me, "", limit)[0]} <= set(names[me])
    assert before == [list(table.objects.order_by("pk").values()) for table in (StoredFile, Batch)]


@pytest.mark.django_db
def test_a_file_that_has_expired_makes_no_batch(home: Path) -> None:
    objects = Folder(home / "lane")
    file_id = upload(objects, b"x")
    StoredFile.objects.update(expires_at=claims.now())
    with pytest.raises(NotThereError) as refused:
        batches.create(TENANTS[0], KEY, NewBatch(file_id, "/v1/chat/completions", "24h"))
    assert refused.value.param == "input_file_id"
