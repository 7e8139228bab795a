"""A process's connection to the store: pooled HTTP, thread-safe, and the only importer of clickhouse_connect.

It imports that at first use: most commands of manage.py never connect, and the import is a tenth of their start.
"""

import contextvars
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa
from urllib3.exceptions import HTTPError

from controlplane.observability import tracing

from .dsn import parse_dsn
from .errors import (
    FILE_SYSTEM,
    LIMIT_CODES,
    REMEDIES,
    RETRYABLE_CODES,
    StoreError,
    StoreLimitError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

P = ParamSpec("P")
R = TypeVar("R")

_BUSY = re.compile(r"HTTP status (408|429|5\d\d)")  # a proxy's answer, without ClickHouse's code
_QUERY = re.compile(r"\?\w+=[^\s)]*")  # of a URL

PROBE_AFTER_S = 2.0
"""Seconds without an answer after which a call first probes the store, so that a store that hangs is noticed after PROBE_S."""
PROBE_S = 3.0
MAX_TRACED = 500
"""Characters of a query in its span."""

READ_SETTINGS: Mapping[str, object] = {
    "do_not_merge_across_partitions_select_final": 1,  # rows of one identity lie in one partition
    "max_execution_time": 30,  # seconds: no page waits longer
    "max_memory_usage": 4 * 2**30,
    "max_query_size": 4 * 2**20,  # queries of the half-hour sort name the cells that they open
    "output_format_arrow_compression_method": "none",  # an eighth of a long page's time, over a loopback port
}

INSERT_SETTINGS: Mapping[str, object] = {
    "optimize_on_insert": 0,  # repeats within an insert are removed when parts merge, as others are: halves the time
    "max_partitions_per_insert_block": 0,  # a backfill of a year touches as many partitions as it has days
}


class Connection:
    """Connects at first use, so that a process may start before the store does. Safe to share between threads.

    Every call raises StoreUnavailableError or StoreError.
    """

    def __init__(
        self, dsn: str, *, connect_timeout_s: int = 5, timeout_s: int = 60, pool: int = 8, database: str = ""
    ) -> None:
        from clickhouse_connect.driver.httputil import get_pool_manager

        self.dsn = parse_dsn(dsn)
        self._database = database or self.dsn.database
        self._connect_timeout_s, self._timeout_s = connect_timeout_s, timeout_s
        self._pool = get_pool_manager(maxsize=pool, num_pools=2)
        self._client: Client | None = None
        self._connecting = threading.Lock()
        self._answered_s = -PROBE_AFTER_S
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="store-read")

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._pool.clear()

    def submit_query(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Run a read in a thread, within the caller's trace. It must not submit one itself."""
        context = contextvars.copy_context()
        return self._threads.submit(lambda: context.run(function, *arguments, **named))

    def ping(self) -> bool:
        """Whether the store answers a query now."""
        try:
            return self.rows("SELECT 1") == [(1,)]
        except StoreUnavailableError:
            return False

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Any]:
        """The rows of a read. Values are bound parameters, `{name:Type}` in `sql`."""
        self._probe()
        with _traced("query", sql), _translate_errors():
            result = self._connected().query(sql, parameters=dict(parameters or {}), settings=dict(READ_SETTINGS))
            self._answered_s = time.monotonic()
            return result.result_rows

    def settings_clause(self, settings: Mapping[str, int]) -> str:
        """` SETTINGS …` for the end of a query, of those that this server's version has. Cheaper than settings of the request, which the
        embedded store sets and resets around the query."""
        self._probe()
        with _translate_errors():
            known = self._connected().server_settings
        clause = ", ".join(f"{name} = {value}" for name, value in settings.items() if name in known)
        return f" SETTINGS {clause}" if clause else ""

    def arrow(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """The columns of a read, with text as strings. For large results."""
        self._probe()
        with _traced("query", sql), _translate_errors():
            try:
                return self._connected().query_arrow(
                    sql, parameters=dict(parameters or {}), settings=dict(READ_SETTINGS), use_strings=True
                )
            except pa.ArrowInvalid as error:  # a server that fails after it has begun to answer appends its error
                raise StoreUnavailableError(f"the store's answer broke off: {error}") from error

    def command(self, sql: str, parameters: Mapping[str, object] | None = None) -> None:
        """Run a statement without a result."""
        with _traced("command", sql), _translate_errors():
            self._connected().command(sql, parameters=dict(parameters or {}))

    def insert_arrow(self, table: str, data: pa.Table) -> None:
        """Append `data`, by column name. Rows sent twice replace themselves: send them again after StoreUnavailableError."""
        with _traced("insert", table), _translate_errors():
            self._connected().insert_arrow(table, data, settings=dict(INSERT_SETTINGS))

    def _probe(self) -> None:
        """Raises StoreUnavailableError where nothing answers at the address. Any HTTP answer will do: proxies have no /ping."""
        if time.monotonic() - self._answered_s < PROBE_AFTER_S:
            return
        scheme, host = "https" if self.dsn.secure else "http", self.dsn.host
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.dsn.port}/ping"
        try:
            self._pool.request("GET", url, timeout=PROBE_S, retries=False)
        except HTTPError as error:
            raise StoreUnavailableError(f"the store does not answer: {error}") from error
        self._answered_s = time.monotonic()

    def _connected(self) -> "Client":
        import clickhouse_connect

        if self._client is None:
            with self._connecting:
                if self._client is None:
                    self._client = clickhouse_connect.get_client(
                        host=self.dsn.host,
                        port=self.dsn.port,
                        username=self.dsn.user,
                        password=self.dsn.password,
                        database=self._database,
                        secure=self.dsn.secure,
                        pool_mgr=self._pool,
                        compress=False,
                        autogenerate_session_id=False,
                        connect_timeout=self._connect_timeout_s,
                        send_receive_timeout=self._timeout_s,
                    )
        return self._client


class StorePart:
    """A part of the store that reads or writes one subject, over a connection that all parts share.

    Each call raises StoreUnavailableError or StoreError; StoreInputError names a wrong argument and the remedy.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


def _traced(operation: str, text: str) -> AbstractContextManager[object]:
    """A span of what is read or written. Values are bound: they do not stand in its text."""
    said = {"db.system.name": "clickhouse", "db.query.text": " ".join(text.split())[:MAX_TRACED]}
    return tracing.call(f"store {operation}", said)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turns the client's exceptions into the store's."""
    from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

    try:
        yield
    except ClickHouseError as error:
        code, said = getattr(error, "code", None), _QUERY.sub("", str(error))
        retryable = (
            code in RETRYABLE_CODES or FILE_SYSTEM in said
            if code
            else isinstance(error, OperationalError) or _BUSY.search(said)
        )
        if code in LIMIT_CODES:
            raise StoreLimitError(f"the store ran out of memory or time for this query: {said}") from error
        if retryable:
            remedy = REMEDIES.get(code or 0, "")
            raise StoreUnavailableError(f"the store does not answer now: {said}", remedy=remedy) from error
        raise StoreError(f"the store refused: {said}", code=code) from error
    except UnicodeDecodeError as error:
        raise StoreUnavailableError(f"the store's answer cannot be read: {error}") from error
    except OSError as error:
        raise StoreUnavailableError(f"the store cannot be reached: {error}") from error
