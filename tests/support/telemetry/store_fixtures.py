"""One embedded store for all tests of a worker, in a process of its own as the product runs it, and an empty database for each test."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.dsn import parse_dsn

from .embedded_store import database_at, dsn_of, store_process

RESTED = 4
"""A database is used again after so many others: what a test left running ends in between."""


@dataclass
class Taken:
    """An empty database, with the definitions of its tables."""

    dsn: str
    definitions: dict[str, str]
    versions: int
    since_s: int = 0


class Databases:
    """Hands out empty databases, and takes back those that a test left with the tables that they had."""

    def __init__(self, server: str) -> None:
        self._server, self._store = server, Store(server)
        self._numbers = count(1)
        self._emptied: deque[Taken] = deque()

    def take(self) -> Taken:
        taken = self._emptied.popleft() if len(self._emptied) > RESTED else self._new()
        taken.since_s = int(time.time())
        return taken

    def give_back(self, taken: Taken) -> None:
        name = parse_dsn(taken.dsn).database
        left = self._store.rows(
            "SELECT name, ifNull(total_rows, 0), toUnixTimestamp(metadata_modification_time) FROM system.tables "
            "WHERE database = {database:String}",
            {"database": name},
        )
        rows = {table: number for table, number, _ in left}
        if rows.keys() != taken.definitions.keys() or rows["schema_versions"] != taken.versions:
            return
        # To read definitions takes seven times as long as all else.
        if any(at_s >= taken.since_s for _, _, at_s in left) and self._definitions(name) != taken.definitions:
            return
        for table, number in rows.items():
            if number and table != "schema_versions":
                self._store.command(f"TRUNCATE TABLE {name}.{table}")
        self._emptied.append(taken)

    def _new(self) -> Taken:
        name = f"test_{next(self._numbers)}"
        dsn = database_at(self._server, name)
        migrate(dsn, retention_days=3650)
        [(versions,)] = self._store.rows(f"SELECT count() FROM {name}.schema_versions")
        return Taken(dsn, self._definitions(name), versions)

    def _definitions(self, database: str) -> dict[str, str]:
        statement = "SELECT name, create_table_query FROM system.tables WHERE database = {database:String}"
        return dict(self._store.rows(statement, {"database": database}))


@pytest.fixture(scope="session")
def front_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a running `python -m controlplane.telemetry.store`. Other tests use it too: name databases of your own."""
    with store_process(tmp_path_factory.mktemp("store-home")) as process:
        yield dsn_of(process)


@pytest.fixture(scope="session")
def databases(front_dsn: str) -> Databases:
    return Databases(front_dsn)


@pytest.fixture(scope="module")
def shared_store(databases: Databases) -> Iterator[Store]:
    """One database for tests of a module that fill it together, once, and then only read."""
    taken = databases.take()
    opened = Store(taken.dsn)
    yield opened
    opened.close()
    databases.give_back(taken)


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """The DSN of an empty, migrated database."""
    taken = databases.take()
    yield taken.dsn
    databases.give_back(taken)


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    opened = Store(dsn)
    yield opened
    opened.close()
