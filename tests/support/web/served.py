"""A real store with a quarter of an hour of traffic in it, put behind the pages and the API, and the two ways in."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from django.test import Client

from controlplane.accounts.models import ApiToken
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.write.keys import key_of
from tests.support.telemetry.embedded_store import database_at
from tests.support.web import traffic
from tests.support.web.people import logged_in, on_call


@dataclass(frozen=True)
class Filled:
    """What is in the store: `rows`, all of which entered in the range."""

    dsn: str
    rows: list[LedgerRow]
    from_ns: int
    to_ns: int

    @property
    def range(self) -> dict[str, str]:
        """The parameters that ask for exactly these requests."""
        return {"from": str(self.from_ns), "to": str(self.to_ns)}

    @property
    def hour(self) -> dict[str, str]:
        """The parameters that ask for the hour that ends with them."""
        return {"from": str(self.to_ns - 3600 * 10**9), "to": str(self.to_ns)}

    @property
    def answered(self) -> list[LedgerRow]:
        """Those that latency is of."""
        return self.of(status="ok")

    def of(self, **columns: str) -> list[LedgerRow]:
        return [row for row in self.rows if all(getattr(row, name) == value for name, value in columns.items())]


def _migrated(dsn: str) -> str:
    migrate(dsn)
    return dsn


@pytest.fixture(scope="session")
def filled(front_dsn: str) -> Filled:
    """A database for the tests that only read; filled once."""
    dsn = _migrated(database_at(front_dsn, "filled"))
    to_ns = time.time_ns()
    from_ns = to_ns - 900 * 10**9
    return Filled(dsn, traffic.fill(Store(dsn), 600, from_ns, to_ns), from_ns, to_ns + 10**9)


@pytest.fixture
def served(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> Filled:
    """Pages and API ask the filled store."""
    store = Store(filled.dsn)
    monkeypatch.setattr(answers, "store", lambda: store)
    return filled


@pytest.fixture(scope="session")
def annex(front_dsn: str) -> str:
    """The DSN of a database to which tests may add. Nothing is added to the filled one, because other tests read it."""
    return _migrated(database_at(front_dsn, "annex"))


@pytest.fixture
def annexed(annex: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Pages and API ask the annex."""
    store = Store(annex)
    monkeypatch.setattr(answers, "store", lambda: store)
    return store


@pytest.fixture
def fresh(annex: str, annexed: Store) -> Iterator[Filled]:
    """Traffic that ends now, for as long as a test asks of the present: the filled store's grows old while tests run."""
    to_ns = time.time_ns()
    from_ns = to_ns - 900 * 10**9
    rows = traffic.fill(annexed, 600, from_ns, to_ns)
    yield Filled(annex, rows, from_ns, to_ns + 10**9)
    annexed.writer.withdraw_requests([key_of(row) for row in rows], version=to_ns + 1)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and API ask a store that does not answer: nothing listens on port 1."""
    store = Store("clickhouse://weir:nobody@127.0.0.1:1/weir")
    monkeypatch.setattr(answers, "store", lambda: store)


@pytest.fixture
def refusing(front_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and API ask a store with a password that it does not take."""
    address = urlsplit(front_dsn)
    store = Store(address._replace(netloc=f"{address.username}:wrong@{address.hostname}:{address.port}").geturl())
    monkeypatch.setattr(answers, "store", lambda: store)


@pytest.fixture
def without_tables(front_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and API ask a store in which telemetry has not made Weir's database yet."""
    store = Store(f"{front_dsn}_not_made")
    monkeypatch.setattr(answers, "store", lambda: store)


@pytest.fixture
def reader(db: None) -> Client:
    """A browser that is logged in."""
    return logged_in(on_call("reader"))


@pytest.fixture
def caller(db: None) -> Client:
    """A program with a token, and no cookies."""
    _, token = ApiToken.objects.issue(on_call("caller"), "tests", ["admin"])
    return Client(headers={"authorization": f"Bearer {token}"})
