"""The HTTP/1.1 edge: httptools parses, this writes. One request's time here is a few microseconds, and a client that
leaves is noticed
at once, whatever its request is doing: the request's task is cancelled.

Why not a server out of the box: docs/gateway.md has the figures.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import httptools
import structlog

from inference.http import Headers, Request, head
from inference.openai import errors
from inference.spans import now_ns

_log = structlog.get_logger()
_MAX_HEAD_BYTES = 64 << 10
_MAX_HEADERS = 128
_MAX_PIPELINED = 32
_WRITE_BUFFER_BYTES = 256 << 10  # past this a client is reading too slowly, and its request waits for it
_SWEEP_S = 1.0
_DISCARD_S = 5.0  # how long the rest of a body that is too large is read, so that the client gets to see the answer

_UNKNOWN_BODY_BYTES = 64 << 10  # a longer body is kept only for a client whose key is known

App = Callable[[Request, "Connection"], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client connection: requests one after the other; those that came early wait their turn. Implements
    `http.Exchange`.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._loop = server.loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: deque[tuple[Request, bool]] = deque()
        self._drain: asyncio.Future[None] | None = None
        self._keep_alive = True
        self._discarding = False
        self._chunked = False
        self._head_only = False
        self._pending = b""  # the head of a stream that has no data yet
        self.since_s = time.monotonic()  # of the state it is in: idle, or reading a request
        self.reading = False
        self.started = False
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._in_head = True

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._ready.clear()
        self._server.connections.discard(self)
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        return False  # a client that will send no more has left: close, which cancels what it asked for

    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        self._drain = None

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keep_alive = False  # answered as if it had not asked
        except httptools.HttpParserCallbackError as error:
            self._refuse(error.__context__)
        except httptools.HttpParserError as error:
            self._refuse(errors.invalid(f"Not an HTTP/1.1 request: {error}", code="bad_request"))
        else:
            if self._in_head and self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(_headers_too_large())

    # httptools ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reset()
        self.reading = True
        self.since_s = time.monotonic()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if len(self._headers) >= _MAX_HEADERS or self._header_bytes > _MAX_HEAD_BYTES:
            raise _headers_too_large()
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_head = False
        length = self._headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() else 0
        if size > self._server.max_body_bytes:
            raise errors.body_too_large(self._server.max_body_bytes)
        if size > _UNKNOWN_BODY_BYTES:
            self._server.admit(self._headers)
        if (
            self._headers.get(b"expect", b"").lower() == b"100-continue"
            and self._transport is not None
            and self._task is None
        ):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self._discarding:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._server.max_body_bytes:
            raise errors.body_too_large(self._server.max_body_bytes)
        if self._body_bytes - len(body) <= _UNKNOWN_BODY_BYTES < self._body_bytes:
            self._server.admit(self._headers)
        self._body.append(body)

    def on_message_complete(self) -> None:
        received_ns = now_ns()
        self.reading = False
        self._head_bytes, self._in_head = 0, True
        if self._discarding:
            return
        path = self._url.split(b"?", 1)[0].decode("ascii", "replace")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = Request(self._parser.get_method().decode("ascii"), path, self._headers, body, received_ns)
        self._body = []
        if len(self._ready) >= _MAX_PIPELINED:
            raise errors.invalid(
                f"More than {_MAX_PIPELINED} requests sent ahead on one connection.", code="bad_request"
            )
        self._ready.append((request, self._parser.should_keep_alive()))
        if self._task is None:
            self._task = self._loop.create_task(self._serve())

    # Serving --------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._task is not None

    async def _serve(self) -> None:
        try:
            while self._ready and self._transport is not None:
                request, self._keep_alive = self._ready.popleft()
                self.started = False
                self._head_only = request.method == "HEAD"
                await self._server.app(request, self)
                if not self._keep_alive or self._server.closing:
                    self.close()
        finally:
            self._task = None
            self.since_s = time.monotonic()

    def _refuse(self, error: BaseException | None) -> None:
        """Answer a request that could not be read, and take no more on this connection."""
        if self._transport is None or self._discarding:
            return
        if not isinstance(error, errors.ApiError):
            _log.error("edge.failed", reason=repr(error))
            self._transport.abort()
            return
        self._discarding = True
        self._ready.clear()
        if self.busy:
            self._transport.abort()  # its answer is being written: there is no way to add another
            return
        self._keep_alive = False
        self.respond(error.status, [(b"content-type", b"application/json")], error.body())
        if self.reading and not self._in_head:
            self._loop.call_later(_DISCARD_S, self.close)
        else:
            self.close()

    def close(self) -> None:
        """Close once all that was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

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
        if self._transport is not None:
            ends = b"content-length: %d\r\n" % len(body)
            self._transport.write(
                head(status, headers, ends, *self._connection_header()) + (b"" if self._head_only else body)
            )

    def start_stream(self, headers: Headers) -> None:
        """Begin a 200 whose length is not known. The head goes out with the first data."""
        self.started = True
        self._chunked = self._parser.get_http_version() != "1.0"
        if not self._chunked:
            self._keep_alive = False
        framing = (b"transfer-encoding: chunked\r\n",) if self._chunked else ()
        self._pending = head(200, headers, *framing, *self._connection_header())

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            chunk = b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data
            if self._pending:
                chunk, self._pending = self._pending + chunk, b""
            self._transport.write(chunk)

    def end_stream(self, data: bytes = b"") -> None:
        """The last data, if any, and the end."""
        if self._transport is not None:
            if self._chunked:
                data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
            self._transport.write(self._pending + data)
            self._pending = b""

    def _connection_header(self) -> tuple[bytes, ...]:
        if self._server.closing:
            self._keep_alive = False
        return () if self._keep_alive else (b"connection: close\r\n",)


def _headers_too_large() -> errors.ApiError:
    return errors.PermanentError(
        431,
        "invalid_request_error",
        "headers_too_large",
        f"Headers over {_MAX_HEAD_BYTES} bytes or {_MAX_HEADERS} lines.",
    )


class Server:
    """Listens, keeps the connections, and ends them. Times are seconds.

    `admit` looks at the headers of a request with a large body before that is read, and refuses it with ApiError.
    """

    def __init__(
        self,
        app: App,
        admit: Callable[[dict[bytes, bytes]], object],
        *,
        max_body_bytes: int,
        max_connections: int,
        read_timeout_s: float,
        idle_timeout_s: float,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.app = app
        self.admit = admit
        self.max_body_bytes = max_body_bytes
        self.connections: set[Connection] = set()
        self.closing = False
        self._max_connections = max_connections
        self._read_timeout_s, self._idle_timeout_s = read_timeout_s, idle_timeout_s
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is the one asked for unless that was 0. Raises OSError."""
        self._listener = await self.loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        self._sweeper = self.loop.create_task(self._sweep())
        return int(self._listener.sockets[0].getsockname()[1])

    def opened(self, connection: Connection) -> None:
        if len(self.connections) >= self._max_connections:
            _log.warning("edge.full", connections=len(self.connections))
            connection.abort()
            return
        self.connections.add(connection)

    async def close(self, timeout_s: float) -> None:
        """Accept no more, let requests in flight finish for at most `timeout_s`, then cancel them."""
        self.closing = True
        if self._listener is not None:
            self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            if not connection.busy:
                connection.close()
        until_s = time.monotonic() + timeout_s
        while any(connection.busy for connection in self.connections) and time.monotonic() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.abort()
        while self.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def _sweep(self) -> None:
        """Close connections that take too long to send a request, or that have had none for long."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = time.monotonic()
            for connection in list(self.connections):
                if connection.busy:
                    continue
                limit_s = self._read_timeout_s if connection.reading else self._idle_timeout_s
                if now_s - connection.since_s > limit_s:
                    connection.close()
