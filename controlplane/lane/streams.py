"""Writes the events of streamed lines while they come: to the disk, then to the database, and only then may they be read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from django.db import DatabaseError

from controlplane.lane.objects.port import Objects
from controlplane.lane.store import claims
from controlplane.lane.store.claims import Claimed

log = structlog.get_logger(__name__)

TOGETHER_S = 0.05
"""Events that come within it are written together."""
_PAUSE_S = 1.0


class Pulse:
    """Says to all who wait that there may be more to read."""

    def __init__(self) -> None:
        self._beat = asyncio.Event()

    def beat(self) -> None:
        self._beat.set()
        self._beat = asyncio.Event()

    async def wait(self, timeout_s: float) -> None:
        beat = self._beat
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await beat.wait()


@dataclass(slots=True)
class _Open:
    line: Claimed
    written: int = 0  # bytes that may be read
    pending: bytearray = field(default_factory=bytearray)


class Streams:
    """Of a worker. `in_thread` runs what waits for disk and database."""

    def __init__(
        self, objects: Objects, in_thread: Callable[[Callable[[], None]], Awaitable[None]], pulse: Pulse
    ) -> None:
        self._objects, self._in_thread, self._pulse = objects, in_thread, pulse
        self._open: dict[int, _Open] = {}  # by attempt
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    def add(self, line: Claimed, events: bytes) -> None:
        if events:
            self._open.setdefault(line.attempt, _Open(line)).pending += events
            self._changed.set()

    async def end(self, line: Claimed) -> tuple[int, bytes]:
        """Where the line's events go on, and those that are not written: they are with its result. Nothing more of it is written here."""
        async with self._lock:
            it = self._open.pop(line.attempt, _Open(line))
            return it.written, bytes(it.pending)

    def forget(self, line: Claimed) -> None:
        """It was given up."""
        self._open.pop(line.attempt, None)

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(TOGETHER_S)
            self._changed.clear()
            try:
                await self._flush()
            except Exception as error:
                if not isinstance(error, DatabaseError | OSError):
                    log.exception("lane.events_not_written")
                else:
                    log.warning("lane.events_not_written", reason=str(error))
                self._changed.set()
                await asyncio.sleep(_PAUSE_S)

    async def _flush(self) -> None:
        async with self._lock:
            parts = [(it, bytes(it.pending)) for it in self._open.values() if it.pending]

            def write() -> None:
                for it, data in parts:
                    self._objects.write_events(it.line.batch, it.line.attempt, it.written, data)
                claims.extend((it.line.line, it.line.attempt, it.written + len(data)) for it, data in parts)

            await self._in_thread(write)
            for it, data in parts:
                it.written += len(data)
                del it.pending[: len(data)]
        self._pulse.beat()
