"""A change of the fleet is in force once it is committed, and never before."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection, transaction

from controlplane.fleet import publish
from controlplane.fleet.models import LLMModel, Pool, Region, Replica, SnapshotRevision, Tenant, Tier, Variant
from inference import snapshot

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(home: Path) -> Pool:
    with transaction.atomic():
        variant = Variant.objects.create(name="chat-8b", model=LLMModel.objects.create(name="chat"))
        made = Pool.objects.create(
            name="near", variant=variant, region=Region.objects.create(name="local"), model_name="chat"
        )
        Replica.objects.create(pool=made, name="one", grpc="127.0.0.1:8001")
    return made


def in_force(home: Path) -> snapshot.Snapshot:
    return snapshot.decode((home / "snapshot.json").read_bytes())


def test_a_committed_change_is_written_as_the_next_version(pool: Pool, home: Path) -> None:
    before = in_force(home)
    pool.max_queue = 7
    pool.save()
    after = in_force(home)
    assert after.version == before.version + 1
    assert after.pools[0].max_queue == 7


def test_many_changes_of_one_transaction_are_one_version(pool: Pool, home: Path) -> None:
    before = in_force(home).version
    with transaction.atomic():
        for number in range(5):
            Replica.objects.create(pool=pool, name=f"extra-{number}", grpc=f"127.0.0.1:{9000 + number}")
    assert in_force(home).version == before + 1
    assert len(in_force(home).pools[0].endpoints) == 6


def test_a_change_that_is_rolled_back_is_never_written(pool: Pool, home: Path) -> None:
    before = (home / "snapshot.json").read_bytes()
    with pytest.raises(RuntimeError), transaction.atomic():
        pool.delete()
        raise RuntimeError
    assert (home / "snapshot.json").read_bytes() == before


def test_a_change_that_gateways_need_not_know_makes_no_version(pool: Pool, home: Path) -> None:
    before = in_force(home).version
    pool.variant.description = "8B, int8"
    pool.variant.save()
    assert in_force(home).version == before


def test_going_back_is_a_new_version_too(pool: Pool, home: Path) -> None:
    first = in_force(home)
    for weight in (50, pool.weight):
        pool.weight = weight
        pool.save()
    again = in_force(home)
    assert again.version == first.version + 2
    assert again.models == first.models


def test_deleting_a_replica_takes_it_out(pool: Pool, home: Path) -> None:
    pool.replicas.all()[0].delete()
    assert in_force(home).pools[0].endpoints == ()


def test_the_file_is_private_and_comes_back_when_somebody_removes_it(pool: Pool, home: Path) -> None:
    path = home / "snapshot.json"
    text = path.read_bytes()
    path.unlink()
    publish.publish()
    assert path.read_bytes() == text
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_version_stays_readable(pool: Pool, home: Path) -> None:
    Tenant.objects.create(name="demo", tier=Tier.objects.create(name="standard"))
    versions = [snapshot.decode(one.text.encode()).version for one in SnapshotRevision.objects.order_by("version")]
    assert versions == list(range(1, len(versions) + 1))


def test_a_failure_to_write_does_not_undo_the_change(pool: Pool, home: Path) -> None:
    (home / "snapshot.json").unlink()
    (home / "snapshot.json").mkdir()  # nothing can be written over a folder
    pool.max_queue = 9
    pool.save()
    assert Pool.objects.get().max_queue == 9
    (home / "snapshot.json").rmdir()
    publish.publish()
    assert in_force(home).pools[0].max_queue == 9


def test_writers_at_the_same_moment_leave_the_newest_version_in_force(pool: Pool, home: Path) -> None:
    def change(number: int) -> None:
        try:
            Replica.objects.create(pool=pool, name=f"r{number}", grpc=f"127.0.0.1:{9100 + number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(change, range(6)))
    newest = SnapshotRevision.objects.latest()
    assert (home / "snapshot.json").read_text() == newest.text
    assert len(in_force(home).pools[0].endpoints) == 7
