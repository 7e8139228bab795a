"""The embedded ClickHouse: one chDB data folder, opened by this process alone, and a pool of handles that run queries at the same time."""

import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chdb

from .errors import StoreError, StoreUnavailable
from .statement import Insert, Query, identifier, settings_statement

_CODE = re.compile(r"\bCode: (\d+)\. ")
UNKNOWN_EXCEPTION = 1002


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

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.settings: dict[str, str] = {}
        self.database = ""


class Engine:
    """Opens `folder` and runs statements. Every method blocks: call it from threads. At most `handles` statements run at once."""

    def __init__(self, folder: Path, handles: int = 8) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = str(folder.resolve())
        try:
            first = chdb.connect(path)
        except RuntimeError as error:
            raise StoreUnavailable(
                f"the store in {path} cannot be opened: another process has it open, or it is damaged ({error}). "
                "Stop the other telemetry process, or give this one its own WEIR_HOME.",
                retry_after_s=5.0,
            ) from error
        self._all = [_Handle(first)] + [_Handle(chdb.connect(path)) for _ in range(handles - 1)]
        self._idle: queue.LifoQueue[_Handle] = queue.LifoQueue()
        for handle in reversed(self._all):
            self._idle.put(handle)
        self._closing = threading.Lock()

    @contextmanager
    def _handle(self, database: str, settings: dict[str, str]) -> Iterator[Any]:
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

    def stream(self, query: Query, database: str, settings: dict[str, str], params: dict[str, str]) -> Iterator[bytes]:
        """The result block by block, for a format whose blocks concatenate. Closing the iterator cancels the query."""
        with (
            self._handle(database, settings) as connection,
            connection.send_query(query.sql, query.format, params=params) as blocks,
        ):
            for block in blocks:
                yield block.bytes()

    def insert(self, insert: Insert, database: str, settings: dict[str, str]) -> int:
        """Rows written. A statement that fails has written none of its blocks (ClickHouse's default block is a million rows)."""
        with self._handle(database, settings) as connection:
            with connection.send_insert(insert.head, insert.format) as inserter:
                inserter.append(bytes(insert.data))
                return int(inserter.finish().rows_written)

    def close(self) -> None:
        """Close every handle, and with the last the folder; waits for statements that run."""
        with self._closing:
            while self._all:
                handle = self._idle.get()
                handle.connection.close()
                self._all.remove(handle)
