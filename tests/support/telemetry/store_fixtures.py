"""One embedded store for all tests of a worker, in a process of its own as the product runs it, and an empty database for each test."""

from collections import deque
from collections.abc import Iterator
from itertools import count

import pytest

from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.dsn import parse_dsn

from .embedded_store import database_at, dsn_of, store_process

RESTED = 4
"""A database is used again after so many others: what a test left running ends in between."""

Tables = dict[str, tuple[str, int]]


class Databases:
    """Hands out empty databases, and takes back those that a test left with the tables that they had."""

    def __init__(self, server: str) -> None:
        self._server, self._store = server, Store(server)
        self._numbers = count(1)
        self._emptied: deque[tuple[str, Tables]] = deque()

    def take(self) -> tuple[str, Tables]:
        if len(self._emptied) > RESTED:
            return self._emptied.popleft()
        name = f"test_{next(self._numbers)}"
        dsn = database_at(self._server, name)
        migrate(dsn, retention_days=3650)
        return dsn, self._tables(name)

    def give_back(self, dsn: str, made: Tables) -> None:
        name = parse_dsn(dsn).database
        left = self._tables(name)
        definitions = [{table: definition for table, (definition, _) in tables.items()} for tables in (left, made)]
        if definitions[0] == definitions[1] and left["schema_versions"] == made["schema_versions"]:
            for table, (_, rows) in left.items():
                if rows and table != "schema_versions":
                    self._store.command(f"TRUNCATE TABLE {name}.{table}")
            self._emptied.append((dsn, made))

    def _tables(self, database: str) -> Tables:
        """Each table's definition and number of rows."""
        rows = self._store.rows(
            "SELECT name, create_table_query, ifNull(total_rows, 0) FROM system.tables WHERE database = {database:String}",
            {"database": database},
        )
        return {name: (definition, count) for name, definition, count in rows}


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
    address, made = databases.take()
    opened = Store(address)
    yield opened
    opened.close()
    databases.give_back(address, made)


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """The DSN of an empty, migrated database."""
    address, made = databases.take()
    yield address
    databases.give_back(address, made)


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    opened = Store(dsn)
    yield opened
    opened.close()
