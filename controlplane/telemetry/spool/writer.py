"""Appends to the spool: one thread writes what has gathered, syncs it to disk once for all of it, and only then says so to each."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import structlog

from . import segments
from .frame import MAGIC, Position, frame_bytes, header

log = structlog.get_logger(__name__)

_MOST_BUFFERS = 512  # of one writev; IOV_MAX is 1024
_DISK_LOOK_S = 1.0  # how often the free space is looked at
FULL_RETRY_S = 5.0
"""What a sender is told to wait when the spool or the disk is full."""


class SpoolFull(Exception):  # noqa: N818  (named for what happened)
    """Nothing can be appended now. Retryable after `retry_after_s`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.retry_after_s = FULL_RETRY_S


class SpoolWriter:
    """The only writer of a folder. `append` never blocks; its future is done once the record would survive a loss of power.

    `max_bytes` bounds what is not worked off (on disk there may be one segment more), `reserve_bytes` is left free on
    its disk (the store needs room to work the spool off),
    `segment_bytes` is the size from which a new file is begun. `on_commit(position)` is called from the writing thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        reserve_bytes: int = 0,
        segment_bytes: int = 32 * 2**20,
        on_commit: Callable[[Position], None] = lambda position: None,
    ) -> None:
        self._folder, self._on_commit = folder, on_commit
        self._max_bytes, self._reserve_bytes, self._segment_bytes = max_bytes, reserve_bytes, segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes = {number: _recover(folder, number) for number in segments.numbers(folder)}
        self._segment = max(self._sizes, default=0)
        self._file: int | None = None
        self.committed = Position(self._segment, self._sizes[self._segment]) if self._sizes else segments.start_of(1)
        self._released = Position(0, 0)
        self._disk_looked, self._disk_full = 0.0, ""
        self._waiting: list[tuple[bytes, bytes, Future[None]]] = []
        self._waiting_bytes = 0
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def append(self, kind: int, payload: bytes, received_ns: int | None = None) -> Future[None]:
        """Raises SpoolFull. The future raises SpoolFull too, where the disk refused the write itself."""
        if reason := self.refusal():
            raise SpoolFull(reason)
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # a sender that goes away does not call back what is being written
        head = header(kind, time.time_ns() if received_ns is None else received_ns, payload)
        with self._change:
            if self._closed:
                raise SpoolFull("the receiver is shutting down")
            self._waiting.append((head, payload, done))
            self._waiting_bytes += frame_bytes(payload)
            self._change.notify()
        return done

    def refusal(self) -> str:
        """Why nothing would be taken now, for people; empty where it would be."""
        if self.backlog + self._waiting_bytes >= self._max_bytes:
            return (
                f"the spool holds its maximum of {self._max_bytes} bytes because the store does not keep up "
                "(WEIR_SPOOL_MAX_BYTES)"
            )
        if (now := time.monotonic()) - self._disk_looked >= _DISK_LOOK_S:
            self._disk_looked = now
            disk = os.statvfs(self._folder)
            free = disk.f_bavail * disk.f_frsize
            full = (
                f"the spool's disk has {free} bytes left, and {self._reserve_bytes} are kept free "
                "(WEIR_SPOOL_RESERVE_BYTES)"
            )
            self._say(full if free <= self._reserve_bytes else "")
        return self._disk_full

    @property
    def size(self) -> int:
        """On disk, including what has been worked off of segments not yet deleted."""
        return sum(list(self._sizes.values()))

    @property
    def backlog(self) -> int:
        """Of it, what is not worked off."""
        return self.size - (self._released.offset if self._released.segment in self._sizes else 0)

    def release(self, before: Position) -> None:
        """Everything before this position is in the store: delete the segments that hold nothing else."""
        self._released = before
        for number in [number for number in list(self._sizes) if number < min(before.segment, self.committed.segment)]:
            segments.path_of(self._folder, number).unlink(missing_ok=True)
            self._sizes.pop(number, None)

    def close(self) -> None:
        """Commit what waits, then stop."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()
        if self._file is not None:
            os.close(self._file)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closed)
                batch, self._waiting = self._waiting, []
                size, self._waiting_bytes = self._waiting_bytes, 0
            if not batch:
                return
            try:
                self._commit(batch, size)
            except OSError as error:
                self._give_up(error)
                for _, _, done in batch:
                    done.set_exception(SpoolFull(f"the spool cannot be written: {error.strerror}"))
            else:
                self._on_commit(self.committed)
                for _, _, done in batch:
                    done.set_result(None)

    def _commit(self, batch: list[tuple[bytes, bytes, Future[None]]], size: int) -> None:
        if self._file is None or self.committed.offset >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        buffers = [buffer for head, payload, _ in batch for buffer in (head, payload)]
        for at in range(0, len(buffers), _MOST_BUFFERS):
            _write_all(self._file, buffers[at : at + _MOST_BUFFERS])
        os.fdatasync(self._file)
        self._sizes[self._segment] = self.committed.offset + size
        self.committed = Position(self._segment, self._sizes[self._segment])

    def _begin_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        number = self._segment + 1
        path = segments.path_of(self._folder, number)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(handle, [MAGIC])
            segments.sync_folder(self._folder)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        self._file, self._segment = handle, number
        self._sizes[number] = len(MAGIC)
        self.committed = segments.start_of(number)

    def _give_up(self, error: OSError) -> None:
        """Leave the segment as it was committed and go on in a new one: after a failed sync nobody knows what the kernel kept."""
        if self._file is not None:
            try:
                os.ftruncate(self._file, self.committed.offset)
            finally:
                os.close(self._file)
                self._file = None
        self._disk_looked = time.monotonic()
        self._say(f"the spool cannot be written: {error.strerror}")

    def _say(self, full: str) -> None:
        """Log that the disk became full, or has room again: once each."""
        if full and not self._disk_full:
            log.error("spool.full", reason=full)
        elif self._disk_full and not full:
            log.info("spool.has_room", folder=str(self._folder))
        self._disk_full = full


def _write_all(handle: int, buffers: list[bytes]) -> None:
    left = [memoryview(buffer) for buffer in buffers if buffer]
    while left:
        written = os.writev(handle, left)
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


def _recover(folder: Path, number: int) -> int:
    """Cut off what a kill left half written at the end of a segment; its size then."""
    path = segments.path_of(folder, number)
    intact, size = segments.intact_bytes(path), path.stat().st_size
    if intact < size:
        log.warning("spool.torn_tail_cut", segment=number, bytes=size - intact)
        os.truncate(path, intact)
    return intact
