"""Migrates a database's tables: numbered SQL files, each applied once, in order."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise

import structlog

from controlplane.config.bounds import MAX_RETENTION_DAYS, MIN_ROLLUP_DAYS

from ..client import Connection
from ..dsn import Dsn
from ..embedded.statement import quote
from ..errors import StoreError, StoreInputError, StoreSchemaError
from ..tiers import KEPT_H, SAMPLED
from ..write.keys import SHARES_KEPT_H

log = structlog.get_logger(__name__)
SCHEMA = files("controlplane.telemetry.store.schema")
ROLLUP_DAYS = 396
"""Thirteen months: a month can be compared with the same one a year ago."""
ROLLUP_TABLES = frozenset(
    {
        "rollups", "rollup_slices", "rollup_builds", "rollup_touched", "demand", "recorded", "gateway_looks", "metric_touched",
        "metric_rollups", "model_loads",
    }
)  # fmt: skip
_TTL = re.compile(r" TTL (?P<before>.+?)(?P<days>\d+)(?P<after>\)+)(?: SETTINGS|$)")
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")

_BASE = """
CREATE DATABASE IF NOT EXISTS {database} {on_cluster}
;
CREATE TABLE IF NOT EXISTS {database}.schema_versions {on_cluster}
(version UInt32, name String, applied_at DateTime DEFAULT now()) ENGINE = {plain} ORDER BY version
"""


def migrations(folder: Traversable = SCHEMA) -> list[tuple[int, str, str]]:
    """(version, name, SQL template), in order. Raises StoreSchemaError where two files have one number: only one would be applied."""
    migrations = sorted(
        (int(match[1]), match[2], file.read_text()) for file in folder.iterdir() if (match := _FILE.match(file.name))
    )
    for (version, name, _), (next_version, next_name, _) in pairwise(migrations):
        if version == next_version:
            raise StoreSchemaError(
                f"{version:04}_{name}.sql and {version:04}_{next_name}.sql have one number: give the newer one the next"
            )
    return migrations


def render(template: str, dsn: Dsn, retention_days: int, rollup_retention_days: int = ROLLUP_DAYS) -> list[str]:
    """The statements of one file for this address; on a cluster, with `ON CLUSTER` and replicated engines.

    Files have placeholders in braces, and a line of `;` between statements.
    """
    replicated = "Replicated" if dsn.cluster else ""
    values = {
        "database": dsn.database,
        "on_cluster": f"ON CLUSTER {quote(dsn.cluster)}" if dsn.cluster else "",
        "replacing": f"{replicated}ReplacingMergeTree",
        "plain": f"{replicated}MergeTree",
        "summing": f"{replicated}SummingMergeTree",
        "retention_days": str(retention_days),
        "rollup_retention_days": str(rollup_retention_days),
        "sampled": str(SAMPLED),
        "shares_kept_h": str(SHARES_KEPT_H),
        **{f"kept_h_{step_s}": str(kept_h) for step_s, kept_h in KEPT_H.items()},
    }
    return [statement.format(**values).strip() for statement in template.split("\n;\n")]


def migrate(dsn: str, retention_days: int = 30, rollup_retention_days: int = ROLLUP_DAYS) -> list[int]:
    """Apply the files that are missing, and return their versions. It is safe to call again, and from several processes at once.

    Raises StoreUnavailableError where the store does not answer, StoreError where the database is newer than this code.
    """
    for what, days, least in (
        ("retention", retention_days, 1),
        ("retention of rollups", rollup_retention_days, MIN_ROLLUP_DAYS),
    ):
        if not least <= days <= MAX_RETENTION_DAYS:
            raise StoreInputError(f"{what} {days} days is out of range; use {least} to {MAX_RETENTION_DAYS}")
    connection = Connection(dsn, database="default")  # the DSN's database may not exist yet
    address = connection.dsn
    try:
        for statement in render(_BASE, address, retention_days):
            connection.command(statement)
        files_by_version = {version: (name, template) for version, name, template in migrations()}
        done = {
            version
            for (version,) in connection.rows(f"SELECT DISTINCT version FROM {address.database}.schema_versions")
        }
        if newer := done - files_by_version.keys():
            raise StoreError(
                f"database {address.database!r} has schema version {max(newer)}; this Weir knows {max(files_by_version)}: run a newer one"
            )
        applied = [version for version in files_by_version if version not in done]
        for version in applied:
            name, template = files_by_version[version]
            for statement in render(template, address, retention_days, rollup_retention_days):
                connection.command(statement)
            connection.command(
                f"INSERT INTO {address.database}.schema_versions (version, name) VALUES ({version}, {quote(name)})"
            )
            log.info("store.migrated", version=version, name=name)
        _set_retention(connection, retention_days, rollup_retention_days)
        _set_fsync(connection)
        return applied
    finally:
        connection.close()


def _set_retention(connection: Connection, retention_days: int, rollup_retention_days: int) -> None:
    """Change the TTL of tables that have another retention. It applies to old parts when they merge."""
    address = connection.dsn
    tables = connection.rows(
        "SELECT name, engine_full FROM system.tables WHERE database = {database:String}"
        " AND (engine_full LIKE '%toIntervalDay(%' OR name IN ('rollups', 'rollup_slices'))",
        {"database": address.database},
    )
    for table, engine in tables:
        until = _TTL.search(engine)
        wanted = rollup_retention_days if table in ROLLUP_TABLES else retention_days
        if until and until["days"] != str(wanted):
            alter = (
                f"ALTER TABLE {{database}}.{table} {{on_cluster}} MODIFY TTL {until['before']}{wanted}{until['after']}"
            )
            [statement] = render(alter, address, wanted)
            connection.command(statement)
            log.info("store.retention_changed", table=table, days=wanted)


def _set_fsync(connection: Connection) -> None:
    """Make inserts wait for the disk, or not, if the address says which."""
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
