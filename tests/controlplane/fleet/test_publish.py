"""A change of the fleet is in force once it is committed, and never before."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from controlplane.fleet import publish
from controlplane.fleet.models import LLMModel, Pool, Region, Replica, SnapshotRevision, Tenant, Tier, Variant
from inference.core import snapshot

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
    return snapshot.check((home / "snapshot.json").read_bytes()).snapshot


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
    versions = [
        snapshot.check(one.text.encode()).snapshot.version for one in SnapshotRevision.objects.order_by("version")
    ]
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


def elsewhere(work: Callable[[], None]) -> None:
    """Do `work` over a connection of its own, and wait until that is done."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result(timeout=30)


def before_the_first(statement: str, work: Callable[[], None]) -> Callable[..., Any]:
    """Has `work` done in between two of the publisher's queries: before the first that begins with `statement`."""
    done: list[bool] = []

    def wrapper(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(statement) and not done:
            done.append(True)
            elsewhere(work)
        return execute(sql, params, many, context)

    return wrapper


@pytest.fixture
def postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip(
            "SQLite lets nobody write while the publisher reads; tests/controlplane/test_on_postgresql.py runs this"
        )


@pytest.mark.usefixtures("postgresql")
def test_an_edit_is_published_whole_or_not_at_all(pool: Pool, home: Path) -> None:
    tier = Tier.objects.create(name="standard", priority=1)

    def edit() -> None:
        with transaction.atomic():
            Pool.objects.filter(pk=pool.pk).update(max_queue=7)
            Tier.objects.filter(pk=tier.pk).update(priority=7)

    pool.max_queue = 1
    pool.save()
    with connection.execute_wrapper(before_the_first('SELECT "fleet_tier"', edit)):
        publish.publish()
    assert (in_force(home).pools[0].max_queue, in_force(home).tiers[0].priority) == (1, 1)
    publish.publish()
    assert (in_force(home).pools[0].max_queue, in_force(home).tiers[0].priority) == (7, 7)


@pytest.mark.usefixtures("postgresql")
def test_two_machines_that_publish_at_the_same_moment_make_two_versions(pool: Pool, home: Path) -> None:
    latest = SnapshotRevision.objects.latest()
    Pool.objects.update(max_queue=3)

    def other_machine() -> None:
        SnapshotRevision.objects.create(version=latest.version + 1, content_sha256="0" * 64, text=latest.text)

    with connection.execute_wrapper(before_the_first('INSERT INTO "fleet_snapshotrevision"', other_machine)):
        publish.publish()
    assert in_force(home).version == latest.version + 2


def test_a_row_that_is_not_valid_is_published_all_the_same_and_said(
    pool: Pool, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It came past the forms. The gateway leaves it out; everybody else's edits go on."""
    Replica.objects.create(pool=pool, name="two", grpc="10.0.0.7")
    LLMModel.objects.create(name="other")
    checked = snapshot.check((home / "snapshot.json").read_bytes())
    assert [str(fault) for fault in checked.faults] == [
        "pool 'near': replica 'two': '10.0.0.7' is not an address: write host:port, such as 10.0.0.7:8001 or [::1]:8001"
    ]
    assert [one.replica for one in checked.snapshot.pools[0].endpoints] == ["one"]
