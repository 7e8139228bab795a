"""A change of the fleet is in force once it is committed, and never before."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from controlplane.fleet import publish
from controlplane.fleet.clusters.errors import StaleLeaderError
from controlplane.fleet.models import (
    AllowedRegion,
    GatewayKey,
    LLMModel,
    Pool,
    PublishedSnapshot,
    Replica,
    SnapshotRevision,
    Tenant,
    Tier,
)
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify import changes
from inference.contract import snapshot
from inference.contract.rules import Degradation, Overlay, Route, RouteRule
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(home: Path) -> Pool:
    with transaction.atomic():
        made = stored_pool()
        Replica.objects.create(pool=made, name="one", grpc="127.0.0.1:8001")
    return made


def in_force(home: Path) -> snapshot.Snapshot:
    return snapshot.check((home / "snapshot.json").read_bytes()).snapshot


def test_each_change_that_gateways_need_is_a_version_that_stays_readable(pool: Pool, home: Path) -> None:
    first, most = in_force(home), pool.max_queue
    pool.max_queue = 7
    pool.save()
    after = in_force(home)
    assert (after.version, after.pools[0].max_queue) == (first.version + 1, 7)
    pool.variant.description = "8B, int8"
    pool.variant.save()
    assert in_force(home).version == after.version, "gateways need not know it"
    pool.max_queue = most
    pool.save()
    again = in_force(home)
    assert (again.version, again.pools) == (first.version + 2, first.pools), "going back is a version too"
    texts = SnapshotRevision.objects.order_by("version").values_list("text", flat=True)
    versions = [snapshot.check(text.encode()).snapshot.version for text in texts]
    assert versions == list(range(1, again.version + 1))


def test_many_changes_of_one_transaction_are_one_version_and_none_where_it_is_rolled_back(
    pool: Pool, home: Path
) -> None:
    text = (home / "snapshot.json").read_bytes()
    with pytest.raises(RuntimeError), transaction.atomic():
        pool.replicas.get().delete()
        raise RuntimeError
    assert (home / "snapshot.json").read_bytes() == text
    before = in_force(home).version
    with transaction.atomic():
        for number in range(5):
            Pool.objects.create(
                name=f"extra-{number}", variant=pool.variant, region=pool.region, model_name="chat", max_queue=number
            )
    assert in_force(home).version == before + 1
    assert len(in_force(home).pools) == 6


def test_what_is_disabled_is_left_out(pool: Pool, home: Path) -> None:
    def disable(row: Any) -> None:
        row.enabled = False
        row.save()

    tenant = Tenant.objects.create(name="demo", tier=Tier.objects.create(name="standard"))
    keys = [GatewayKey(tenant=tenant, name=name, max_in_flight=limit) for name, limit in (("plain", 0), ("own", 3))]
    for key in keys:
        key.renew()
        key.save()
    far = Pool.objects.create(name="far", variant=pool.variant, region=pool.region, model_name="chat")
    before = in_force(home)
    assert [(len(one.key_sha256), len(one.keys)) for one in before.tenants] == [(1, 1)]
    disable(keys[0])
    disable(keys[1])
    assert in_force(home).tenants == (snapshot.Tenant("demo", "standard", ()),)
    disable(tenant)
    assert in_force(home).tenants == ()
    disable(far)
    assert [one.name for one in in_force(home).pools] == ["near"]
    disable(pool.replicas.get())
    assert in_force(home).pools[0].endpoints == ()
    disable(pool.variant.model)
    assert (in_force(home).models, in_force(home).pools) == ((), ())


def test_replicas_change_without_a_revision(pool: Pool, home: Path) -> None:
    """A scale step and a drain are no edit of a policy: only the version of the endpoints grows, once a transaction."""
    before, revisions = in_force(home), SnapshotRevision.objects.count()
    with transaction.atomic():
        for number in range(5):
            Replica.objects.create(pool=pool, name=f"extra-{number}", grpc=f"127.0.0.1:{9000 + number}")
    more = in_force(home)
    assert len(more.pools[0].endpoints) == 6
    assert (more.version, more.endpoints_version) == (before.version, before.endpoints_version + 1)
    leaving = Replica.objects.get(name="extra-0")
    leaving.draining = True
    leaving.save()
    assert [one.replica for one in in_force(home).pools[0].endpoints if one.draining] == ["extra-0"]
    assert publish.endpoints_version() == in_force(home).endpoints_version == before.endpoints_version + 2
    Replica.objects.all().delete()
    assert in_force(home).models == before.models, "the route to a pool without replicas stays"
    assert SnapshotRevision.objects.count() == revisions
    changes.announce(timezone.now())
    assert not ChangeRecord.objects.filter(identity=f"policy-revision/{before.version + 1}").exists()


def an_overlay(**changes: Any) -> Overlay:
    step = Degradation("chat", "standard", 1, "short answers", max_output_tokens=16)
    return msgspec.structs.replace(
        Overlay(decision="d1", expires_ms=1_800_000_000_000, degradation=(step,), canary={"chat": {"near": 5}}),
        **changes,
    )


def test_an_overlay_lies_over_what_owners_entered_and_is_no_revision(pool: Pool, home: Path) -> None:
    before, revisions = in_force(home), SnapshotRevision.objects.count()
    version = publish.publish_overlay(an_overlay(), generation=3)
    assert in_force(home).overlay == an_overlay(version=version)
    assert in_force(home).models == before.models
    pool.max_queue = 3
    pool.save()
    assert in_force(home).overlay == an_overlay(version=version), "an edit leaves it in force"
    assert publish.publish_overlay(an_overlay(), generation=3) == version, "the same again is nothing new"
    assert publish.publish_overlay(an_overlay(expires_ms=1_800_000_060_000), generation=3) == version + 1
    assert SnapshotRevision.objects.count() == revisions + 1


def test_of_two_documents_the_later_one_was_written_later_whatever_the_clock_says(
    pool: Pool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish.publish_overlay(an_overlay(), 1)
    first = in_force(home).written_ms
    monkeypatch.setattr("time.time_ns", lambda: 0)
    publish.publish_overlay(an_overlay(expires_ms=2**52), 2)
    assert in_force(home).written_ms == first + 1
    publish.publish()
    assert in_force(home).written_ms == first + 1, "nothing has changed"


def test_a_leader_that_was_replaced_cannot_write_an_overlay(pool: Pool, home: Path) -> None:
    publish.publish_overlay(an_overlay(), generation=3)
    publish.publish_overlay(an_overlay(), generation=4)  # the new leader decides the same
    with pytest.raises(StaleLeaderError, match="last written by the leader of generation 4"):
        publish.publish_overlay(an_overlay(decision="late"), generation=3)
    assert in_force(home).overlay.decision == "d1"


def test_routing_rules_are_policy(pool: Pool, home: Path) -> None:
    before = in_force(home).version
    rules = (
        RouteRule("chat-edge/short", "chat", tiers=("standard",), max_prompt_tokens=500, routes=(Route("near"),)),
        RouteRule("chat-edge/rest", "chat", routes=(Route("gone"),), fallbacks=("near",), cache="never"),
    )
    publish.publish_rules("chat-edge", rules)
    assert in_force(home).version == before + 1
    assert in_force(home).rules == (rules[0], msgspec.structs.replace(rules[1], routes=()))
    publish.publish_rules("chat-edge", ())
    assert in_force(home).rules == ()


def test_allowed_regions_reach_gateways_and_keep_their_region(pool: Pool, home: Path) -> None:
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard"))
    AllowedRegion.objects.create(model=pool.variant.model, region=pool.region)
    AllowedRegion.objects.create(tenant=tenant, region=pool.region)
    document = in_force(home)
    assert (document.models[0].regions, document.tenants[0].regions) == (("local",), ("local",))
    Pool.objects.all().delete()
    with pytest.raises(ProtectedError):  # else the tenant might be served everywhere
        pool.region.delete()


def test_the_file_is_private_and_comes_back_and_a_failure_to_write_it_undoes_no_change(pool: Pool, home: Path) -> None:
    path = home / "snapshot.json"
    text = path.read_bytes()
    path.unlink()
    publish.publish()
    assert path.read_bytes() == text
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.mkdir()  # nothing can be written over a folder
    pool.max_queue = 9
    pool.save()
    assert Pool.objects.get().max_queue == 9
    path.rmdir()
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
    newest = PublishedSnapshot.objects.get()
    assert (home / "snapshot.json").read_text() == newest.text
    assert newest.endpoints_version == in_force(home).endpoints_version
    assert len(in_force(home).pools[0].endpoints) == 7


def elsewhere(work: Callable[[], None]) -> None:
    """Do `work` over a connection of its own, and wait until that is done."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result(timeout=120)


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
    latest = SnapshotRevision.objects.latest("version")
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
