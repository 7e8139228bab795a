"""Tables are made and migrated once, however often and from however many processes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.telemetry.store import Store, StoreError, StoreInputError, migrate
from controlplane.telemetry.store.dsn import parse_dsn
from controlplane.telemetry.store.errors import StoreSchemaError
from controlplane.telemetry.store.maintenance import migrate as migrate_module
from controlplane.telemetry.store.maintenance.migrate import ROLLUP_TABLES, migrations, render
from tests.support.telemetry.samples import HOUR, random_rows

VERSIONS = [version for version, _, _ in migrations()]


def test_versions_are_numbered_without_gaps() -> None:
    assert list(range(1, len(VERSIONS) + 1)) == VERSIONS


def test_two_files_with_one_number_are_refused(tmp_path: Path) -> None:
    """Only one of them would be applied, and nobody would know which."""
    for name in ("0001_spans.sql", "0002_labels.sql", "0002_times.sql"):
        (tmp_path / name).write_text("SELECT 1")
    with pytest.raises(
        StoreSchemaError, match=r"0002_labels\.sql and 0002_times\.sql have one number: give the newer one the next"
    ):
        migrations(tmp_path)


def test_migrating_again_changes_nothing(dsn: str, store: Store) -> None:
    store.writer.insert_requests(random_rows(5, seed=1), version=1)
    assert migrate(dsn, 3650) == []
    assert store.latency.report(HOUR).requests == 5


def test_several_processes_may_migrate_at_once(front_dsn: str) -> None:
    fresh = f"{front_dsn.rpartition('/')[0]}/raced"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: migrate(fresh), range(4)))
    assert migrate(fresh) == []
    assert Store(fresh).overview.newest() is None


def test_a_database_of_an_older_version_gets_what_it_lacks(front_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    older = f"{front_dsn.rpartition('/')[0]}/older"
    migrate(older, 3650)
    added = (
        len(VERSIONS) + 1,
        "note",
        "ALTER TABLE {database}.requests {on_cluster} ADD COLUMN IF NOT EXISTS note String",
    )
    monkeypatch.setattr(migrate_module, "migrations", lambda: [*migrations(), added])
    assert migrate(older, 3650) == [added[0]]
    assert migrate(older, 3650) == []
    assert Store(older).rows("SELECT count(note) FROM requests") == [(0,)]


def test_a_database_newer_than_the_code_is_left_alone(dsn: str, store: Store) -> None:
    store.command("INSERT INTO schema_versions (version, name) VALUES (9999, 'from the future')")
    with pytest.raises(StoreError, match="schema version 9999; this Weir knows"):
        migrate(dsn)


def test_the_retention_is_on_every_table_and_can_be_changed(dsn: str, store: Store) -> None:
    def retentions() -> dict[str, str]:
        rows = store.rows(
            "SELECT name, extract(engine_full, ' TTL .+?(\\d+)\\)+ SETTINGS') FROM system.tables WHERE database = {d:String}"
            " AND engine LIKE '%MergeTree' AND name NOT IN ('schema_versions', 'shares', 'tallies')",
            {"d": store.dsn.database},
        )
        return dict(rows)

    tables = retentions().keys()
    assert {"spans", "requests", "samples"} <= tables
    assert tables >= ROLLUP_TABLES
    assert retentions() == {table: "396" if table in ROLLUP_TABLES else "3650" for table in tables}
    assert migrate(dsn, 7, 100) == []
    assert retentions() == {table: "100" if table in ROLLUP_TABLES else "7" for table in tables}


@pytest.mark.parametrize("days", [0, -1, 36500])
def test_a_retention_that_would_drop_everything_is_refused(dsn: str, days: int) -> None:
    with pytest.raises(StoreInputError, match=f"retention {days} days is out of range; use 1 to 3660"):
        migrate(dsn, days)


def test_inserts_wait_for_the_disk_where_the_address_says_so(dsn: str, store: Store) -> None:
    def synced() -> set[str]:
        rows = store.rows(
            "SELECT name FROM system.tables WHERE database = {d:String} AND engine_full LIKE '%fsync_after_insert = 1%'",
            {"d": store.dsn.database},
        )
        return {name for (name,) in rows}

    migrate(dsn, 3650)
    assert synced() == set()
    migrate(f"{dsn}?fsync=1", 3650)
    assert {"spans", "requests", "samples"} <= synced()
    migrate(dsn, 3650)
    assert {"spans", "requests", "samples"} <= synced(), "an address that says nothing changes nothing"
    migrate(f"{dsn}?fsync=0", 3650)
    assert synced() == set()
    with pytest.raises(StoreInputError, match="write fsync=1 or fsync=0"):
        parse_dsn(f"{dsn}?fsync=yes")


def test_on_a_cluster_tables_are_replicated_and_made_everywhere() -> None:
    dsn = parse_dsn("clickhouse://host/db?cluster=main")
    for _, _, template in migrations():
        for statement in render(template, dsn, 30):
            assert "ON CLUSTER 'main'" in statement or "INSERT INTO" in statement  # rows are replicated by their table
            assert "= Replicated" in statement or "ENGINE" not in statement
