"""One client's connection over HTTP/1.1: it keeps the order of requests and answers, and the limits of a connection.

When a client leaves, its request's task is cancelled at once. A client that does not read its answers is not read from
either, so that the bytes kept for it stay bounded. `inference.wires.http.server` ends it after a while.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import structlog

from inference.core.openai import errors
from inference.core.passing.writer import error_body
from inference.wires.http.exchange import JSON, Exchange, Headers, Request, head
from inference.wires.http.incoming import Incoming
from inference.wires.http.reader import Reader

_log = structlog.get_logger()
_UNREAD_BYTES = 64 << 10  # past this a client reads too slowly: its requests wait, and it is not read from
_DISCARD_BYTES = 16 << 20  # after the last request; then the connection is cut
_READ_AHEAD = 8  # when so many requests wait, the connection is not read
_MAX_WAITING = 128  # more can only come in one packet, and are refused
_PARSE_BYTES = 2048  # parsed at a time
_LARGE_BYTES = 256 << 10  # of an answer: to copy it takes longer than another write

App = Callable[[Request, Exchange], Awaitable[None]]


class Listener(Protocol):
    """What a connection asks of the server that accepted it, and tells it."""

    loop: asyncio.AbstractEventLoop
    app: App
    max_body_bytes: int
    streams: Callable[[str, str], int]
    """How many bytes of a request's body, by method and path, are handed on while they come; 0 has it read first."""
    closing: bool
    """Whether clients are to go elsewhere."""

    @property
    def admit(self) -> Callable[[dict[bytes, bytes]], object]:
        """Gets the headers of a request with a large body, and raises ApiError to refuse it."""

    def opened(self, connection: "Connection") -> None: ...
    def lost(self, connection: "Connection") -> None: ...
    def hold(self, size: int) -> None:
        """Count `size` more (or fewer) bytes as kept for a client."""


class Connection(asyncio.Protocol):
    """Serves requests one after the other; requests sent ahead wait. Implements `http.Exchange`."""

    def __init__(self, server: Listener) -> None:
        self._server = server
        self._loop = server.loop
        self._transport: asyncio.Transport | None = None
        self._reader = Reader(
            server.max_body_bytes, self._admit, self.hold, self._go_on, self._received, server.streams, self._pace
        )
        self._task: asyncio.Task[None] | None = None
        self._ready: deque[Request | errors.ApiError] = deque()
        self._drain: asyncio.Future[None] | None = None  # while the client reads too slowly
        self._blocked_bytes = 0  # counted as held for that reason
        self._paused = False
        self._rest = b""  # read and not parsed yet
        self._keep_alive = True
        self._version = "1.1"
        self._chunked = False
        self._head_only = False
        self._pending = b""  # the head of a stream that has no data yet
        self._body: Incoming | None = None  # of the request that is answered, where it is handed on while it comes
        self._idle_since_s = 0.0  # since the last answer
        self._discarding = False  # no more requests are taken, and data is thrown away
        self._discarded_bytes = 0
        self._refused = False  # because the client sent what cannot be read; it may be sending still
        self._sent_bytes = 0
        self._due_bytes, self._due_since_s = 0, 0.0  # bytes that are to leave, and since when
        self._finished_s = 0.0  # when the last answer was written; 0 before that
        self.held_bytes = 0  # of requests that are read, wait or are answered
        self.known = False
        self.more: Headers = []
        self.started = False

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.hold(-self.held_bytes)
        self._transport = None
        self._ready.clear()
        self._server.lost(self)
        self.resume_writing()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()
        self._blocked_bytes = self.unread_bytes
        self._server.hold(self._blocked_bytes)
        self._pace()

    def resume_writing(self) -> None:
        self._server.hold(-self._blocked_bytes)
        self._blocked_bytes = 0
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        self._drain = None
        self._pace()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
            return
        if self._rest:
            self.hold(len(data))
            self._rest += data  # it had been read before reading was paused
        else:
            self._take(data)

    def eof_received(self) -> bool:
        return False  # a client that sends no more counts as having left: close, which cancels its requests

    def _take(self, data: bytes) -> None:
        """Parse, heads in small parts, so that only a few requests are read ahead."""
        while data and not self._discarding:
            if len(self._ready) >= _READ_AHEAD:
                self.hold(len(data))
                self._rest = data
                self._pace()
                return
            part, data = (data[:_PARSE_BYTES], data[_PARSE_BYTES:]) if self._reader.in_head else (data, b"")
            try:
                data = self._reader.feed(part) + data
            except errors.ApiError as error:
                self._refuse(error)
            except Exception:  # noqa: BLE001  (a bug, whatever it is)
                _log.exception("edge.failed")
                self.abort()
                return
            if self._reader.over:
                self._discarding = True

    def _go_on(self) -> None:
        """Let a client that waits for it send its body, unless answers to earlier requests are due."""
        if self._task is None:
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _admit(self, headers: dict[bytes, bytes]) -> None:
        self._server.admit(headers)
        self.known = True

    # Serving --------------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether a request is expected: the first one, or the rest of one that has begun."""
        return self._reader.reading

    @property
    def since_s(self) -> float:
        """Since when it has been idle, or has been reading a request."""
        return max(self._idle_since_s, self._reader.since_s)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._task is not None

    def _received(self, request: Request) -> None:
        if len(self._ready) >= _MAX_WAITING:
            raise errors.invalid(f"More than {_MAX_WAITING} requests sent ahead at once.", code="bad_request")
        self._queue(request)

    def _queue(self, item: Request | errors.ApiError) -> None:
        self._ready.append(item)
        if self._task is None:
            self._task = self._loop.create_task(self._serve())

    def _refuse(self, error: errors.ApiError) -> None:
        """Answer a request that could not be read, after those before it, and take no more."""
        if self._transport is not None:
            self._discarding = self._refused = True
            if self._is_sent_still:  # whoever reads its body answers
                assert self._body is not None
                self._body.refuse(error)
            else:
                self._queue(error)

    async def _serve(self) -> None:
        try:
            while self._ready and self._transport is not None:
                if self._drain is not None:
                    await self._drain
                    continue
                item = self._ready.popleft()
                self.started = False
                if self.more:
                    self.more = []
                if isinstance(item, errors.ApiError):
                    self._keep_alive = self._head_only = False
                    self.respond(item.status, [JSON, *item.headers()], error_body(self._reader.path, item))
                else:
                    self._keep_alive, self._version, self._body = item.keep_alive, item.version, item.incoming
                    self._head_only = item.method == "HEAD"
                    await self._server.app(item, self)
                    if item.held_bytes:
                        self.hold(-item.held_bytes)
                if not self._keep_alive:
                    self.finish()
                elif self._paused and len(self._ready) < _READ_AHEAD:
                    self._pace()
        except Exception:  # noqa: BLE001  (a bug, whatever it is: it is logged, and the client does not wait for ever)
            _log.exception("edge.failed")
            self.abort()
        finally:
            self._task = None
            self._idle_since_s = time.monotonic()

    def _pace(self) -> None:
        """Pause or resume reading: paused while the client does not read, or while many requests wait."""
        if self._transport is None:
            return
        incoming = self._reader.incoming
        waits = len(self._ready) >= _READ_AHEAD or (incoming is not None and incoming.full)
        pause = not self._discarding and (self._drain is not None or waits)
        if pause is self._paused:
            return
        self._paused = pause
        if pause:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._rest:
            data, self._rest = self._rest, b""
            self.hold(-len(data))
            self._take(data)

    def hold(self, size: int) -> None:
        if self._transport is not None:
            self.held_bytes += size
            self._server.hold(size)

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes > _DISCARD_BYTES:
            self.abort()

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._sent_bytes += len(data)
            self._transport.write(data)

    @property
    def peer(self) -> str:
        """The client's address without its port; empty once the connection is lost."""
        address = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(address[0]) if address else ""

    # The end --------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End it once everything written has gone out, and the client has closed or some seconds have passed.

        Until then data is read and thrown away: closing with unread bytes would make the kernel reset the connection,
        and the client could lose the answer (RFC 9112, 9.6).
        """
        if self._transport is None or self._finished_s:
            return
        self._finished_s = time.monotonic()
        self._discarding = True
        self._ready.clear()  # what was read and not begun is forgotten
        self._pace()  # reading goes on, and throws away
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        elif not self._refused:  # TLS has no half-closed connections; an error's end is known by its length
            self._transport.close()

    def close(self) -> None:
        """Close it when nothing is due."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut it, and lose what has not gone out."""
        if self._transport is not None:
            self.hold(-self.held_bytes)
            transport, self._transport = self._transport, None
            transport.abort()

    @property
    def kept_bytes(self) -> int:
        """Everything kept for it: requests, an estimate for small ones that wait, and answers not read."""
        return self.held_bytes + (len(self._ready) << 10) + self.unread_bytes

    @property
    def unread_bytes(self) -> int:
        """Bytes written that have not gone out yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def is_unread(self, now_s: float, limit_s: float) -> bool:
        """Whether bytes written at least `limit_s` ago have still not gone out. Call it about once a second."""
        if self._sent_bytes - self.unread_bytes >= self._due_bytes:
            self._due_bytes, self._due_since_s = self._sent_bytes, now_s
            return False
        return now_s - self._due_since_s > limit_s

    def is_over(self, now_s: float, limit_s: float) -> bool:
        """Whether the last answer went out, and the client has had `limit_s` to close."""
        return bool(self._finished_s) and not self.unread_bytes and now_s - self._finished_s > limit_s

    # http.Exchange --------------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        return self._drain is not None

    async def drained(self, timeout_s: float) -> None:
        if self._drain is not None:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._drain)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.started = True
        ends = b"content-length: %d\r\n" % len(body)
        begin = head(status, headers + self.more, ends, *self._connection_header())
        if self._head_only or len(body) > _LARGE_BYTES:
            self._send(begin)
            if not self._head_only:
                self._send(body)  # without copying it
        else:
            self._send(begin + body)

    def start_stream(self, headers: Headers, status: int = 200) -> None:
        """Begin an answer whose length is not known. The head goes out with the first data."""
        self.started = True
        self._chunked = self._version != "1.0"
        if not self._chunked:
            self._keep_alive = False
        framing = (b"transfer-encoding: chunked\r\n",) if self._chunked else ()
        self._pending = head(status, headers + self.more, *framing, *self._connection_header())

    def write(self, data: bytes) -> None:
        chunk = b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data
        if self._pending:
            chunk, self._pending = self._pending + chunk, b""
        self._send(chunk)

    def end_stream(self, data: bytes = b"") -> None:
        """Send the last data, if any, and the end."""
        if self._chunked:
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        data, self._pending = self._pending + data, b""
        self._send(data)

    @property
    def _is_sent_still(self) -> bool:
        """Whether the body of the request that is answered has not come whole: what follows is no request."""
        return self._body is not None and not self._body.whole

    def _connection_header(self) -> tuple[bytes, ...]:
        if self._server.closing or self._is_sent_still:
            self._keep_alive = False
        if not self._keep_alive:
            return (b"connection: close\r\n",)
        return () if self._version == "1.1" else (b"connection: keep-alive\r\n",)
