"""A connection of the HTTP client, and the answer that it gets. A reader that is slow makes the server wait."""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import httptools

from inference.contract.errors import PermanentError, RetryableError

_MAX_HEAD_BYTES = 64 << 10
_MAX_UNREAD_BYTES = 256 << 10
STALE_WITHIN_S = 0.05
"""Longer than most round trips to a server. A server that dies of a request within it is called once more, on a new connection."""


class LostError(RetryableError):
    """Retryable: the connection ended before the answer did. `stale`: the server had closed it before the request came. It was kept
    from a call before, and ended, without a byte, within the time in which the news of its end was under way.
    """

    def __init__(self, message: str, *, stale: bool = False) -> None:
        super().__init__(message)
        self.stale = stale


class NotHttpError(PermanentError):
    """Permanent: what came is not HTTP, or has a head without end."""


class TooLongError(PermanentError):
    """Permanent: the answer has more bytes than its caller wants."""


class Origin(NamedTuple):
    """Where a server is. With `context` it is spoken to over TLS, as `server_name` if that is not empty, and through `proxy` if there
    is one.
    """

    host: str
    port: int
    context: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: tuple[str, int] | None = None


class Keeper(Protocol):
    """What a connection tells its client."""

    def give_back(self, response: "Response") -> None:
        """Its caller is done with it."""

    def forget(self, response: "Response") -> None:
        """It has ended."""


class Response(asyncio.Protocol):
    """A connection and the answer that it gets. Between two calls it is idle.

    `status` and `headers` (lower-case names) hold once `head` has returned. Of a header that comes twice the last counts.
    """

    def __init__(self, client: Keeper, origin: Origin) -> None:
        self.origin = origin
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.whole = False
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._calls = 0
        self._sent_s = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._full = False  # the server does not read as fast as it is sent to
        self.begun: asyncio.Event | None = (
            None  # where somebody waits for it: set once the answer begins, or never will
        )
        self.idle_since_s = 0.0
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers = {}
        self.whole = False
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False
        self._stays = False  # whether the server keeps the connection
        self._head_bytes = 0
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._paused = False
        self._error: Exception | None = None
        self._on_end: Callable[[], None] | None = None

    # The caller's side -----------------------------------------------------------------------------

    def send(self, request: bytes) -> None:
        """Send a whole request. The connection must be idle."""
        assert self._transport is not None
        if self._calls:
            self._begin()
        self._calls += 1
        self._sent_s = time.monotonic()
        self._transport.write(request)

    async def write(self, data: bytes) -> None:
        """Send more of a request, at the server's pace. Nothing once the answer has begun, or the connection has ended."""
        if self._transport is None or self._has_head or self._error is not None:
            return
        self._transport.write(data)
        while self._full and not self._has_head and self._error is None:
            await self._changed()

    async def head(self) -> None:
        """Wait for the answer's head. Raises LostError, NotHttpError."""
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._changed()

    def take(self) -> bytes:
        """What of the body has come and was not taken yet; empty if nothing has."""
        if not self._unread:
            return b""
        data = self._unread.popleft() if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def read(self) -> bytes:
        """More of the body, as it comes; empty at its end. Raises LostError, NotHttpError."""
        while not self._unread:
            if self.whole:
                return b""
            if self._error is not None:
                raise self._error
            await self._changed()
        return self.take()

    async def read_all(self, most: int) -> bytes:
        """The whole body, of at most `most` bytes. Raises TooLongError, LostError, NotHttpError."""
        parts, size = [], 0
        while part := await self.read():
            parts.append(part)
            size += len(part)
            if size > most:
                raise TooLongError(f"the answer is longer than {most} bytes")
        return b"".join(parts)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call once the answer is whole or lost; at once if it is."""
        if self.whole or self._error is not None:
            call()
        else:
            self._on_end = call

    def release(self) -> None:
        """Done with it: the connection is kept if the answer was whole, and closed else. Harmless a second time."""
        self._client.give_back(self)

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._error is None

    @property
    def reusable(self) -> bool:
        return self.whole and self.open and self._stays

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _changed(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The transport's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by name

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        if not self._calls or self.whole:  # nobody has asked for it
            self.abort()
            return
        if not self._has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(NotHttpError(f"the answer is not HTTP: {error}"))
            self.abort()
            return
        except httptools.HttpParserUpgrade:
            self._fail(NotHttpError("the answer is not HTTP: the server switches to another protocol"))
            self.abort()
            return
        if not self._has_head and self._head_bytes > _MAX_HEAD_BYTES:
            self._fail(NotHttpError(f"the answer is not HTTP: its head has more than {_MAX_HEAD_BYTES} bytes"))
            self.abort()
            return
        if self._unread_bytes > _MAX_UNREAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._client.forget(self)
        if not self._calls or self.whole:
            return
        if self._has_head and self._ends_with_the_connection() and error is None:
            self._complete()
        elif not self._head_bytes and self._calls > 1 and time.monotonic() - self._sent_s < STALE_WITHIN_S:
            self._fail(LostError("the server had closed the connection", stale=True))
        elif self._has_head:
            self._fail(LostError("the connection was lost in the middle of the answer"))
        else:
            self._fail(LostError("the connection was lost"))

    def _ends_with_the_connection(self) -> bool:
        """RFC 9112, 6.3: a body without a length and without chunks."""
        return b"content-length" not in self.headers and b"transfer-encoding" not in self.headers

    def _fail(self, error: Exception) -> None:
        if self.begun is not None:
            self.begun.set()
        if self._error is None:
            self._error = error
            self._ended()

    def _complete(self) -> None:
        self.whole = True
        self._ended()

    def _ended(self) -> None:
        self._wake()
        call, self._on_end = self._on_end, None
        if call is not None:
            call()

    # The parser's side -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.whole:  # a second answer to one request
            self._stays = False
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else a trailer
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self.whole:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:  # 100 or 103: another head follows
            self.headers = {}
        else:
            self._has_head = True
            self._stays = self._parser.should_keep_alive()
            if self.begun is not None:
                self.begun.set()

    def on_body(self, body: bytes) -> None:
        if self.whole:  # of a second answer
            return
        self._unread.append(body)
        self._unread_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete()
