"""Runs ClickHouse in this process: one chDB data folder, which no other process may open, and handles for concurrent statements."""

import os
import queue
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import chdb
import structlog
from chdb.state.sqlitelike import Connection

from ..errors import StoreError, StoreUnavailableError
from .statement import Insert, Query, identifier, quote, settings_statement

log = structlog.get_logger(__name__)

CLOSING_S = 20.0
"""Seconds that closing waits for each running statement."""
UNKNOWN_EXCEPTION = 1002  # ClickHouse's code for errors without one

SERVER_SETTINGS = Path(__file__).with_name("server_settings.xml")
"""ClickHouse's configuration. Its defaults are those of a server that is never idle."""

_CODE = re.compile(r"\bCode: (\d+)\. ")


class EngineError(StoreError):
    """Permanent: ClickHouse refused a statement, with this message and code."""

    code: int


def _engine_error(error: Exception) -> EngineError:
    text = str(error)
    match = _CODE.search(text)
    return EngineError(
        text[match.start() :] if match else text, code=int(match.group(1)) if match else UNKNOWN_EXCEPTION
    )


class _Handle:
    """One chDB connection with the settings last made on it, so that most statements need no SET."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.settings: dict[str, str] = {}
        self.database = ""


class Engine:
    """Opens `folder` and runs statements. Every method blocks: call it from threads. At most `handles` statements run at once."""

    def __init__(self, folder: Path, handles: int = 8) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = str(folder.resolve())
        try:
            first = Connection(f"{path}?config-file={SERVER_SETTINGS}")
        except RuntimeError as error:
            raise StoreUnavailableError(
                f"the store in {path} cannot be opened: another process has it open, or it is damaged ({error}). "
                "Stop the other telemetry process, or give this one its own WEIR_HOME.",
                retry_after_s=5.0,
            ) from error
        self._all = [_Handle(first)] + [_Handle(Connection(path)) for _ in range(handles - 1)]
        self._idle: queue.LifoQueue[_Handle] = queue.LifoQueue()
        for handle in reversed(self._all):
            self._idle.put(handle)

    @contextmanager
    def _handle(self, database: str, settings: dict[str, str]) -> Iterator[Connection]:
        handle = self._idle.get()
        try:
            change = settings_statement(settings, handle.settings)
            if change:
                handle.settings = {**handle.settings, **settings}  # a SET that fails may have set any of them
                handle.connection.query(change)
                handle.settings = dict(settings)
            if database and database != handle.database:
                handle.connection.query(f"USE {identifier(database)}")
                handle.database = database
            yield handle.connection
        except (RuntimeError, chdb.ChdbError) as error:
            raise _engine_error(error) from error
        finally:
            self._idle.put(handle)

    def run(self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]) -> bytes:
        """The whole result, in the query's format."""
        with self._handle(database, settings) as connection:
            return bytes(connection.query(query.sql, query.format, params=params).bytes())

    def stream(self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]) -> "Stream":
        """The result in blocks that concatenate. The stream holds a handle until it is closed."""
        return Stream(self._blocks(query, database, settings, params))

    def _blocks(
        self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]
    ) -> Generator[bytes, None, None]:
        with (
            self._handle(database, settings) as connection,
            connection.send_query(query.sql, query.format, params=params) as blocks,
        ):
            for block in blocks:
                yield block.bytes()

    def insert(self, insert: Insert, database: str, settings: dict[str, str]) -> int:
        """Insert, and return the rows written. A statement that fails has written none of its blocks (by default a million rows each).

        ClickHouse reads the data as a file in memory, because chDB reports no error for some streamed inserts that fail (too many
        partitions, a full disk).
        """
        with self._handle(database, settings) as connection, _in_memory(insert.data) as path:
            done = connection.query(f"{insert.head} SELECT * FROM file('{path}', {quote(insert.format)})")
            return int(done.storage_rows_read())

    def close(self) -> None:
        """Close every handle, and with the last one the folder. Waits up to `CLOSING_S` for each running statement."""
        while self._all:
            try:
                handle = self._idle.get(timeout=CLOSING_S)
            except queue.Empty:
                log.warning("store.closed_with_statements_running", statements=len(self._all))
                return
            handle.connection.close()
            self._all.remove(handle)


@contextmanager
def _in_memory(data: bytes | memoryview) -> Iterator[str]:
    """A path at which ClickHouse, in this process, reads `data`."""
    file = os.memfd_create("insert")
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


class Stream:
    """Blocks of a result. If one thread closes it while another waits for a block, the close waits too."""

    def __init__(self, blocks: Generator[bytes, None, None]) -> None:
        self._blocks = blocks
        self._turn = threading.Lock()

    def next(self) -> bytes | None:
        """The next block; None after the last one and after closing. Raises EngineError."""
        with self._turn:
            return next(self._blocks, None)

    def close(self) -> None:
        """Cancel the rest of the query and return the handle."""
        with self._turn:
            self._blocks.close()
