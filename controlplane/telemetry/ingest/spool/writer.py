"""Appends to the spool: one thread writes all waiting records, syncs them to disk at once, and then completes their futures."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import structlog

from . import segment_files
from .frame import MAGIC, Position, frame_bytes, header

log = structlog.get_logger(__name__)

_MAX_BUFFERS = 512  # of one writev; IOV_MAX is 1024
_DISK_LOOK_S = 1.0  # how often the free space is checked
_PROBE_S = 1.0  # how often a disk that refused a write is tried again
_STUCK_S = 10.0  # a write that takes longer than this: the disk does not answer
KEEP_S = 60.0
"""How long a segment stays after all of it is in the store, s. By then Linux has written the store's files to disk, for which
ClickHouse does not wait: dirty pages are written after 30 s (`vm.dirty_expire_centisecs`), checked every 5 s."""
FULL_RETRY_S = 5.0
"""How long a sender should wait when the spool or the disk is full, s."""


class SpoolFullError(Exception):
    """No record can be appended now. Retryable after `retry_after_s`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.retry_after_s = FULL_RETRY_S


class SpoolWriter:
    """The only writer of a folder. `append` never blocks; its future is done once the record would survive a loss of power.

    `max_bytes` bounds the size on disk, up to one segment more. `reserve_bytes` stay free on the disk, because the store needs room to
    work off the spool. From `segment_bytes` on a new file is begun. `on_commit(position)` is called from the writing thread. Segments that
    are worked off stay for `keep_s` seconds, unless there is no room.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        reserve_bytes: int = 0,
        segment_bytes: int = 32 * 2**20,
        keep_s: float = KEEP_S,
        on_commit: Callable[[Position], None] = lambda position: None,
    ) -> None:
        self._folder, self._on_commit = folder, on_commit
        self._max_bytes, self._reserve_bytes, self._segment_bytes = max_bytes, reserve_bytes, segment_bytes
        self._keep_s = keep_s
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes = {number: _recover(folder, number) for number in segment_files.numbers(folder)}
        self._done_s: dict[int, float] = {}  # when each segment was worked off
        self._uncut: dict[int, int] = {}  # the valid length of segments whose end could not be cut off
        self._segment = max(self._sizes, default=0)
        self._file: int | None = None
        self.committed = (
            Position(self._segment, self._sizes[self._segment]) if self._sizes else segment_files.start_of(1)
        )
        self._released = Position(0, 0)
        self._disk_looked, self._disk_full, self._broken = 0.0, "", ""
        self._failed_bytes, self._undeleted = 0, False
        self._writing_since: float | None = None
        self._waiting: list[tuple[bytes, bytes, Future[None]]] = []
        self._waiting_bytes = 0
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def append(self, kind: int, payload: bytes, received_ns: int | None = None) -> Future[None]:
        """Raises SpoolFullError. The future raises SpoolFullError too, where the disk refused the write itself."""
        if reason := self.refusal():
            raise SpoolFullError(reason)
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # a sender that leaves cannot cancel a write
        head = header(kind, time.time_ns() if received_ns is None else received_ns, payload)
        with self._change:
            if self._closed:
                raise SpoolFullError("the receiver is shutting down")
            self._waiting.append((head, payload, done))
            self._waiting_bytes += frame_bytes(payload)
            self._change.notify()
        return done

    def refusal(self) -> str:
        """Why a record would be refused now, as a sentence; empty where it would be accepted."""
        if self.backlog + self._waiting_bytes >= self._max_bytes:
            return (
                f"the spool holds its maximum of {self._max_bytes} bytes because the store does not keep up "
                "(WEIR_SPOOL_MAX_BYTES)"
            )
        if not self._thread.is_alive():
            return "the spool's writing thread has ended: restart telemetry"
        now_s, since_s = time.monotonic(), self._writing_since
        if since_s is not None and now_s - since_s > _STUCK_S:
            return f"the spool's disk has not answered for {now_s - since_s:.0f} s"
        if now_s - self._disk_looked >= _DISK_LOOK_S:
            self._disk_looked = now_s
            self._full(self._look_at_disk())
        return self._broken or self._disk_full

    @property
    def alive(self) -> bool:
        """False once the writing thread has ended, which is a fault unless `close` was called."""
        return self._thread.is_alive()

    @property
    def size(self) -> int:
        """Bytes on disk, including worked-off segments that are not deleted yet."""
        return sum(list(self._sizes.values()))

    @property
    def backlog(self) -> int:
        """Bytes that are not worked off."""
        done, at = self._done_s, self._released
        begun = at.offset if at.segment in self._sizes and at.segment not in done else 0
        return sum([size for number, size in list(self._sizes.items()) if number not in done]) - begun

    def release(self, before: Position) -> None:
        """Note that everything before this position is in the store. Segments before it are deleted after `keep_s`."""
        self._released, now_s = before, time.monotonic()
        for number in list(self._sizes):
            if number < min(before.segment, self.committed.segment):
                self._done_s.setdefault(number, now_s)
        self.tidy()

    def tidy(self) -> None:
        """Delete worked-off segments after `keep_s`, or sooner where there is no room. Call it regularly."""
        oldest_s = time.monotonic() - self._keep_s
        for number, done_s in list(self._done_s.items()):
            if (done_s <= oldest_s or self.size >= self._max_bytes) and not self._delete(number):
                return

    def close(self) -> None:
        """Commit the waiting records, then stop."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()
        if self._file is not None:
            os.close(self._file)

    def _delete(self, number: int) -> bool:
        """False where the disk refuses it. The segment then stays until a later attempt succeeds."""
        try:
            segment_files.path_of(self._folder, number).unlink(missing_ok=True)
        except OSError as error:
            if not self._undeleted:
                log.warning("spool.not_deleted", segment=number, reason=_reason_of(error))
            self._undeleted = True
            return False
        self._undeleted = False
        self._done_s.pop(number, None)
        self._sizes.pop(number, None)
        return True

    def _look_at_disk(self) -> str:
        """Why there is no room, as a sentence, after deleting worked-off segments."""
        while True:
            try:
                disk = os.statvfs(self._folder)
            except OSError as error:
                return f"the free space of the spool's disk cannot be read: {error.strerror}"
            free = disk.f_bavail * disk.f_frsize
            if free > self._reserve_bytes:
                return ""
            if not self._done_s or not self._delete(min(self._done_s)):
                return (
                    f"the spool's disk has {free} bytes left, and {self._reserve_bytes} are kept free "
                    "(WEIR_SPOOL_RESERVE_BYTES)"
                )

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closed, _PROBE_S if self._broken else None)
                batch, self._waiting = self._waiting, []
                size, self._waiting_bytes = self._waiting_bytes, 0
                ended = self._closed and not batch
            if ended:
                return
            self._writing_since = time.monotonic()
            if self._broken:
                self._probe()
            if batch:
                self._serve(batch, size)
            self._writing_since = None

    def _serve(self, batch: list[tuple[bytes, bytes, Future[None]]], size: int) -> None:
        """Commit a batch, and complete its futures. Never raises, because this thread serves all senders."""
        try:
            self._commit(batch, size)
        except Exception as error:  # noqa: BLE001  (any error goes to those who wait)
            self._failed_bytes = size
            self._give_up(error)
            for _, _, done in batch:
                done.set_exception(SpoolFullError(f"the spool cannot be written: {_reason_of(error)}"))
            return
        for _, _, done in batch:
            done.set_result(None)
        try:
            self._on_commit(self.committed)
        except Exception:
            log.exception("spool.commit_not_reported")  # the next commit reports this one too

    def _commit(self, batch: list[tuple[bytes, bytes, Future[None]]], size: int) -> None:
        if self._file is None or self.committed.offset >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        buffers = [buffer for head, payload, _ in batch for buffer in (head, payload)]
        for at in range(0, len(buffers), _MAX_BUFFERS):
            _write_all(self._file, buffers[at : at + _MAX_BUFFERS])
        os.fdatasync(self._file)
        self._sizes[self._segment] = self.committed.offset + size
        self.committed = Position(self._segment, self._sizes[self._segment])

    def _begin_segment(self, tried_bytes: int = 0) -> None:
        """Begin a new file. `tried_bytes` are written into it and cut off again, to test whether the disk has room for as much."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        number = self._segment + 1
        path = segment_files.path_of(self._folder, number)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(handle, [MAGIC])
            if tried_bytes:
                _write_all(handle, [bytes(tried_bytes)])
                os.fdatasync(handle)
                os.ftruncate(handle, len(MAGIC))
                os.lseek(handle, len(MAGIC), os.SEEK_SET)
            segment_files.sync_folder(self._folder)
        except OSError:
            os.close(handle)
            with suppress(OSError):
                path.unlink()
            raise
        self._file, self._segment = handle, number
        self._sizes[number] = len(MAGIC)
        self.committed = segment_files.start_of(number)

    def _probe(self) -> None:
        """Test a disk that refused a write. Where it accepts as much as it refused, the spool accepts records again."""
        try:
            for number, length in list(self._uncut.items()):
                os.truncate(segment_files.path_of(self._folder, number), length)
                del self._uncut[number]
            self._begin_segment(self._failed_bytes)
        except OSError as error:
            self._refusing(f"the spool cannot be written: {_reason_of(error)}")
        else:
            self._refusing("")

    def _give_up(self, error: Exception) -> None:
        """Cut the segment to what was committed and continue in a new one: after a failed sync the state of its pages is unknown."""
        if self._file is not None:
            try:
                os.ftruncate(self._file, self.committed.offset)
            except OSError:
                self._uncut[self._segment] = self.committed.offset
            with suppress(OSError):
                os.close(self._file)
            self._file = None
        self._refusing(f"the spool cannot be written: {_reason_of(error)}")

    def _full(self, reason: str) -> None:
        """Called by whoever appends."""
        before, self._disk_full = self._disk_full, reason
        self._log_change(before, reason)

    def _refusing(self, reason: str) -> None:
        """Called by the writing thread only."""
        before, self._broken = self._broken, reason
        self._log_change(before, reason)

    def _log_change(self, before: str, now: str) -> None:
        """Log once that the spool began to refuse records, or accepts them again."""
        if now and not before:
            log.error("spool.refused", reason=now)
        elif before and not now:
            log.info("spool.recovered", folder=str(self._folder))


def _reason_of(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"


def _write_all(handle: int, buffers: list[bytes]) -> None:
    left = [memoryview(buffer) for buffer in buffers if buffer]
    while left:
        written = os.writev(handle, left)
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


def _recover(folder: Path, number: int) -> int:
    """Cut off a record that a kill left half written at the end of a segment. Returns the segment's size."""
    path = segment_files.path_of(folder, number)
    intact, size = segment_files.intact_bytes(path), path.stat().st_size
    if intact < size:
        log.warning("spool.torn_tail_cut", segment=number, bytes=size - intact)
        os.truncate(path, intact)
    return intact
