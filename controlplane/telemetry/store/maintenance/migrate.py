"""Brings a database's tables to this version's shape: numbered SQL files, each applied once, in order."""

import re
from importlib.resources import files

import structlog

from controlplane.config.bounds import MAX_RETENTION_DAYS

from ..client import Connection
from ..dsn import Dsn
from ..embedded.statement import quote
from ..errors import StoreError, StoreInputError
from ..read.presorted import PIECE_S
from ..write.shares import KEPT_H

log = structlog.get_logger(__name__)

"""ClickHouse's DateTime ends in 2106 and wraps: a TTL beyond it would lie in the past and drop everything."""

_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


_BASE = """
CREATE DATABASE IF NOT EXISTS {database} {on_cluster}
;
CREATE TABLE IF NOT EXISTS {database}.schema_versions {on_cluster}
(version UInt32, name String, applied_at DateTime DEFAULT now()) ENGINE = {plain} ORDER BY version
"""


def migrations() -> list[tuple[int, str, str]]:
    """(version, name, SQL template), in order."""
    found = []
    for file in files("controlplane.telemetry.store.schema").iterdir():
        if matched := _FILE.match(file.name):
            found.append((int(matched.group(1)), matched.group(2), file.read_text()))
    return sorted(found)


def render(template: str, dsn: Dsn, retention_days: int) -> list[str]:
    """The statements of one file for this address: on a cluster, `ON CLUSTER` and replicated engines.

    Files hold placeholders in braces and statements parted by a line of `;`.
    """
    replicated = "Replicated" if dsn.cluster else ""
    values = {
        "database": dsn.database,
        "on_cluster": f"ON CLUSTER {quote(dsn.cluster)}" if dsn.cluster else "",
        "replacing": f"{replicated}ReplacingMergeTree",
        "plain": f"{replicated}MergeTree",
        "summing": f"{replicated}SummingMergeTree",
        "piece_s": str(PIECE_S),
        "retention_days": str(retention_days),
        "shares_kept_h": str(KEPT_H),
    }
    return [statement.format(**values).strip() for statement in template.split("\n;\n")]


def migrate(dsn: str, retention_days: int = 30) -> list[int]:
    """Apply what is missing; returns the versions applied now. Running it again, or from two processes at once, changes nothing more.

    Raises StoreUnavailableError where the store does not answer, StoreError where the database is newer than this code.
    """
    if not 1 <= retention_days <= MAX_RETENTION_DAYS:
        raise StoreInputError(f"retention {retention_days} days is out of range; use 1 to {MAX_RETENTION_DAYS}")
    connection = Connection(dsn, database="default")  # its own may not exist yet
    address = connection.dsn
    try:
        for statement in render(_BASE, address, retention_days):
            connection.command(statement)
        known = {version: (name, template) for version, name, template in migrations()}
        done = {
            version
            for (version,) in connection.rows(f"SELECT DISTINCT version FROM {address.database}.schema_versions")
        }
        if newer := done - known.keys():
            raise StoreError(
                f"database {address.database!r} has schema version {max(newer)}; this Weir knows {max(known)}: run a newer one"
            )
        applied = [version for version in known if version not in done]
        for version in applied:
            name, template = known[version]
            for statement in render(template, address, retention_days):
                connection.command(statement)
            connection.command(
                f"INSERT INTO {address.database}.schema_versions (version, name) VALUES ({version}, {quote(name)})"
            )
            log.info("store.migrated", version=version, name=name)
        _set_retention(connection, retention_days)
        _set_fsync(connection)
        return applied
    finally:
        connection.close()


def _set_retention(connection: Connection, retention_days: int) -> None:
    """Change the TTL of tables made with another retention; old parts are judged by the new one as they merge."""
    address = connection.dsn
    tables = connection.rows(
        "SELECT name, engine_full, extract(engine_full, 'TTL (.+?) \\+ toIntervalDay') FROM system.tables"
        " WHERE database = {database:String} AND engine_full LIKE '%toIntervalDay(%'",
        {"database": address.database},
    )
    for table, engine, expression in tables:
        if f"toIntervalDay({retention_days})" not in engine:
            [alter] = render(
                "ALTER TABLE {database}."
                + table
                + " {on_cluster} MODIFY TTL "
                + expression
                + " + INTERVAL {retention_days} DAY",
                address,
                retention_days,
            )
            connection.command(alter)
            log.info("store.retention_changed", table=table, days=retention_days)


def _set_fsync(connection: Connection) -> None:
    """Have every insert wait for the disk, or not any more, where the address says which."""
    address = connection.dsn
    if address.fsync is None:
        return
    tables = connection.rows(
        "SELECT name, position(engine_full, 'fsync_after_insert = 1') > 0 FROM system.tables"
        " WHERE database = {database:String} AND engine LIKE '%MergeTree' AND name != 'schema_versions'",
        {"database": address.database},
    )
    for table, already in tables:
        if bool(already) != address.fsync:
            value = int(address.fsync)
            [alter] = render(
                "ALTER TABLE {database}."
                + table
                + f" {{on_cluster}} MODIFY SETTING fsync_after_insert = {value}, fsync_part_directory = {value}",
                address,
                1,
            )
            connection.command(alter)
            log.info("store.fsync_changed", table=table, fsync=address.fsync)
