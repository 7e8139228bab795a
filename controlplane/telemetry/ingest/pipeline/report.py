"""Reports a pipeline's status to the receiver, and keeps items that cannot be stored."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from .status import NOT_REACHED, Status, encode

log = structlog.get_logger(__name__)

BEAT_S = 1.0
"""The longest time between two statuses, s."""
REFUSED_FILE = "refused.jsonl"
MAX_REFUSED_BYTES = 64 * 2**20
"""Size of that file. The previous one is kept beside it."""
_AGAIN_S = 1.0


class Reporter:
    """Writes statuses, one line each, to `pipe`. Thread-safe."""

    def __init__(self, pipe: int, shard: int) -> None:
        self._pipe, self._shard = pipe, shard
        self._store_away, self._disk_away = NOT_REACHED, ""
        self._said_s = 0.0

    def send(self, status: Status) -> None:
        self._said_s = time.monotonic()
        line = encode(
            msgspec.structs.replace(status, shard=self._shard, store_away=self._disk_away or self._store_away)
        )
        os.write(self._pipe, line + b"\n")  # shorter than PIPE_BUF: lines of two threads do not mix

    def beat(self) -> None:
        """Send a status unless one was sent within the last second. Called wherever the work moves or waits."""
        if time.monotonic() - self._said_s >= BEAT_S:
            self.send(Status())

    def store_away(self, reason: str) -> None:
        self._store_away = reason
        self.send(Status())

    def disk_away(self, reason: str) -> None:
        if reason != self._disk_away:
            self._disk_away = reason
            if reason:
                log.error("pipeline.disk_refused", reason=reason, remedy="it is tried again every second")
            else:
                log.info("pipeline.disk_recovered")
            self.send(Status())


class Folder:
    """Writes files into the spool's folder, and retries while the disk refuses a write."""

    def __init__(self, path: Path, reporter: Reporter) -> None:
        self._path, self._reporter = path, reporter
        self._ended = threading.Event()
        self._one_at_a_time = threading.Lock()

    def end(self) -> None:
        """Stop retrying."""
        self._ended.set()

    def retry(self, write: Callable[[], None]) -> bool:
        """Call `write` until it succeeds. False where `end` was called first."""
        while True:
            try:
                write()
            except OSError as error:
                self._reporter.disk_away(f"the spool's folder cannot be written: {error.strerror}")
                if self._ended.wait(_AGAIN_S):
                    return False
            else:
                self._reporter.disk_away("")
                return True

    def refuse(self, items: Sequence[object], reason: str) -> None:
        """Keep items that cannot be stored, and count them."""
        lines = b"".join([_line(item, reason) for item in items])
        with self._one_at_a_time:
            if self.retry(lambda: self._append(lines)):
                self._reporter.send(Status(refused=len(items)))

    def _append(self, lines: bytes) -> None:
        path = self._path / REFUSED_FILE
        if path.exists() and path.stat().st_size + len(lines) > MAX_REFUSED_BYTES:
            path.replace(path.with_name(f"{REFUSED_FILE}.1"))
        with path.open("ab") as file:
            file.write(lines)


def _line(item: object, reason: str) -> bytes:
    try:
        return msgspec.json.encode({"reason": reason, "refused": item}) + b"\n"
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        return msgspec.json.encode({"reason": reason, "refused": type(item).__name__, "not_kept": str(error)}) + b"\n"
