"""`manage.py erase_tenant`."""

import time
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError

from controlplane.audit.models import Entry
from controlplane.celery import app
from controlplane.fleet.models import GatewayKey, Tenant, Tier
from controlplane.lane.models import Batch, Line
from controlplane.lane.objects.folder import Folder
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.arrow_columns import span_table
from controlplane.worker.schedule import SCHEDULE
from tests.support.commands import said
from tests.support.lane.stored import begun, new_job
from tests.support.telemetry.samples import row, span

pytestmark = pytest.mark.django_db


def erase_tenant(*arguments: str) -> dict[str, int]:
    """What the last table of the command says."""
    lines = said("erase_tenant", *arguments).rpartition(":\n")[2].splitlines()
    return {name: int(count.replace(",", "")) for count, name in (line.split(maxsplit=1) for line in lines)}


@pytest.fixture
def kept(store: Store, dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, traces, a batch and a job of alice, and as many of bob."""
    monkeypatch.setattr(settings, "CONFIG", settings.CONFIG.model_copy(update={"store_dsn": dsn}))
    tier, objects = Tier.objects.create(name="gold", priority=1), Folder(home / "lane")
    for number, name in enumerate(("alice", "bob"), 1):
        Tenant.objects.create(name=name, tier=tier)
        store.writer.insert_requests([row(number, tenant=name)], version=1)
        store.writer.insert_span_columns(span_table([span(number, trace_id=number.to_bytes(16, "big"))]))
        begun(objects, 2, name)
        new_job(objects, name)


def test_all_of_a_tenant_is_erased_and_counted_and_nothing_of_another(kept: None) -> None:
    before, of_bob = erase_tenant("alice"), erase_tenant("bob")
    assert before == of_bob
    assert {name: before[name] for name in ("requests", "spans", "batches", "files")} == {
        "requests": 1, "spans": 1, "batches": 2, "files": 1,
    }  # fmt: skip
    assert set(erase_tenant("alice", "--erase").values()) == {0}
    assert erase_tenant("bob") == of_bob
    assert set(Line.objects.values_list("batch__tenant", flat=True)) == {"bob"}
    [entry] = Entry.objects.filter(action="erased")
    assert (entry.subject, entry.before) == ("alice", before)
    assert Tenant.objects.get(name="alice").cache_purges == 1


def test_what_is_older_than_a_tenant_wants_it_kept_is_removed_by_the_worker(kept: None, store: Store) -> None:
    Tenant.objects.filter(name="alice").update(retention_days=1)
    Tenant.objects.filter(name="bob").update(retention_days=3_000)
    store.writer.insert_requests([row(9, tenant="alice", entry_start_ns=time.time_ns())], version=1)
    of_bob, before = erase_tenant("bob"), erase_tenant("alice")
    assert before["requests"] == 1
    app.loader.import_default_modules()
    app.tasks[SCHEDULE["prune-tenants"]["task"]]()
    assert set(erase_tenant("alice").values()) == {0}
    assert store.eraser.counts("alice")["requests"] == 1
    assert erase_tenant("bob") == of_bob
    assert Batch.objects.filter(tenant="alice").exists()


def test_nothing_is_erased_while_something_may_come(kept: None) -> None:
    GatewayKey.objects.issue(Tenant.objects.get(name="alice"), "shop")
    with pytest.raises(CommandError, match="its keys shop are enabled: disable them first"):
        erase_tenant("alice", "--erase")
    assert Batch.objects.filter(tenant="alice").exists()


def test_a_tenant_that_is_not_there_is_named(kept: None) -> None:
    with pytest.raises(CommandError, match="there is no tenant 'nobody'"):
        erase_tenant("nobody")


def test_without_the_store_nothing_is_said_to_be_erased(kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    away = settings.CONFIG.model_copy(update={"store_dsn": "clickhouse://weir:x@127.0.0.1:1/weir"})
    monkeypatch.setattr(settings, "CONFIG", away)
    with pytest.raises(CommandError, match="the store does not answer"):
        erase_tenant("alice", "--erase")
    assert Batch.objects.filter(tenant="alice").exists()
