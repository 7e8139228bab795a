"""The embedded ClickHouse: one chDB data folder, opened by this process alone, and handles that run queries at the same time."""

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
"""How long closing waits for each statement that runs."""
UNKNOWN_EXCEPTION = 1002  # ClickHouse's code for what has none

_CODE = re.compile(r"\bCode: (\d+)\. ")


class EngineError(StoreError):
    """ClickHouse refused a statement: its own message, and always its code."""

    code: int


def _engine_error(error: Exception) -> EngineError:
    text = str(error)
    found = _CODE.search(text)
    return EngineError(
        text[found.start() :] if found else text, code=int(found.group(1)) if found else UNKNOWN_EXCEPTION
    )


class _Handle:
    """One chDB connection with what was last set on it, so that most requests need no SET of their own."""

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
            first = Connection(path)
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
                handle.settings = {**handle.settings, **settings}  # what may be set, should the statement fail half-way
                handle.connection.query(change)
                handle.settings = dict(settings)
            if database and database != handle.database:
                handle.connection.query(f"USE {identifier(database)}")
                handle.database = database
            yield handle.connection
        except RuntimeError as error:
            raise _engine_error(error) from error
        except chdb.ChdbError as error:
            raise _engine_error(error) from error
        finally:
            self._idle.put(handle)

    def run(self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]) -> bytes:
        """The whole result, in the query's format."""
        with self._handle(database, settings) as connection:
            return bytes(connection.query(query.sql, query.format, params=params).bytes())

    def stream(self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]) -> "Stream":
        """The result block by block, for a format whose blocks concatenate. It holds a handle until it is closed."""
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
        """Rows written. A statement that fails has written none of its blocks (ClickHouse's default block is a million rows).

        The data is read from memory as a file is: of chDB's streamed inserts some fail without a word (too many partitions, a full
        disk), and what is acknowledged would be lost.
        """
        with self._handle(database, settings) as connection, _in_memory(insert.data) as path:
            done = connection.query(f"{insert.head} SELECT * FROM file('{path}', {quote(insert.format)})")
            return int(done.storage_rows_read())

    def close(self) -> None:
        """Close every handle, and with the last the folder; waits `CLOSING_S` for statements that run."""
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
    """A path of this process at which `data` is read."""
    file = os.memfd_create("insert")
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


class Stream:
    """Blocks of a result. One thread may close it while another waits for a block: the close waits too."""

    def __init__(self, blocks: Generator[bytes, None, None]) -> None:
        self._blocks = blocks
        self._turn = threading.Lock()

    def next(self) -> bytes | None:
        """The next block; None after the last one, and once it is closed. Raises EngineError."""
        with self._turn:
            return next(self._blocks, None)

    def close(self) -> None:
        """Cancel what is left of the query and give the handle back."""
        with self._turn:
            self._blocks.close()
