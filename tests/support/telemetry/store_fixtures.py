"""One embedded store for all tests of a worker, in a process of its own as the product runs it, and an empty database for each test."""

from collections import deque
from collections.abc import Iterator
from itertools import count

import pytest

from controlplane.telemetry.store import Store, StoreError, migrate

from .embedded_store import database_at, dsn_of, store_process

RESTED = 4
"""A database is used again after so many others: what a test left running ends in between."""

Tables = dict[str, tuple[str, int]]


class Databases:
    """Hands out empty databases, and takes back those that a test left with the tables that they had."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = count(1)
        self._emptied: deque[tuple[str, Tables]] = deque()

    def take(self) -> tuple[str, Tables]:
        if len(self._emptied) > RESTED:
            return self._emptied.popleft()
        dsn = database_at(self._server, f"test_{next(self._numbers)}")
        migrate(dsn, retention_days=3650)
        return dsn, tables(dsn)

    def give_back(self, dsn: str, made: Tables) -> None:
        try:
            left = tables(dsn)
            if {name: definition for name, (definition, _) in left.items()} == {
                name: definition for name, (definition, _) in made.items()
            } and left.get("schema_versions") == made["schema_versions"]:
                store = Store(dsn)
                for name, (_, rows) in left.items():
                    if rows and name != "schema_versions":
                        store.command(f"TRUNCATE TABLE {name}")
                store.close()
                self._emptied.append((dsn, made))
        except StoreError:
            return  # the test took the database away


def tables(dsn: str) -> Tables:
    """Each table's definition and number of rows."""
    store = Store(dsn)
    rows = store.rows(
        "SELECT name, create_table_query, ifNull(total_rows, 0) FROM system.tables WHERE database = {database:String}",
        {"database": store.dsn.database},
    )
    store.close()
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
