"""One gRPC call: a request message, and any number of response messages."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from inference.core.backend_errors import UnreachableError
from inference.wires.grpc import http2 as h2
from inference.wires.grpc.errors import GrpcError

# Bytes a server may send, on one call and on all together, before it needs a window update: far above any answer's text.
WINDOW = 4 << 20
_MAX_MESSAGE = 16 << 20  # bytes; a larger response is refused
_NO_METADATA: Mapping[bytes, bytes] = {}


class Carrier(Protocol):
    """What a call asks of its connection."""

    loop: asyncio.AbstractEventLoop

    def send(self, call: "Call", data: bytes) -> None:
        """Send more of a call's request, and its end if the call is not open any more."""

    def give_back(self, call: "Call") -> None:
        """What has been received was read: the server may send as much again."""

    def cancel(self, call: "Call") -> None: ...


class Call:
    """`read` returns each response message, and then None if the status is OK; else it raises GrpcError or UnreachableError.

    While the server is at its limit of calls, a new call waits: the lowest `priority` first, and then first come, first
    served.

    A call that was begun without a request message takes any number with `send`, until `finish`. `headers` and `trailers`
    are the server's metadata, once they are there; they are not to be changed.
    """

    __slots__ = (
        "_buffer",
        "_connection",
        "_error",
        "_messages",
        "_needed",
        "_waiter",
        "closed",
        "credit",
        "headers",
        "open",
        "priority",
        "request",
        "stream",
        "trailers",
        "unsent",
        "window",
    )

    def __init__(self, connection: Carrier, request: tuple[bytes, bytes | None, bytes], priority: int) -> None:
        self.stream = 0  # until it is sent
        self.window = 0  # bytes that may still be sent on this call
        self.credit = 0  # received bytes not yet given back to the server
        self.priority = priority
        # Path, body and metadata: kept until the server begins to answer, because a refused call is sent again.
        self.request: tuple[bytes, bytes | None, bytes] | None = request
        self.open = request[1] is None  # more messages may follow
        self.unsent: memoryview | None = None  # the rest of the request, for which the windows had no room
        self.closed = False
        self.headers: Mapping[bytes, bytes] = _NO_METADATA
        self.trailers: Mapping[bytes, bytes] = _NO_METADATA
        self._connection = connection
        self._messages: deque[bytes] = deque()
        self._buffer = bytearray()  # the beginning of a message
        self._needed = 0  # bytes of the buffer until it can be read on
        self._error: GrpcError | UnreachableError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether it has not been sent, because the server is at its limit of calls."""
        return not self.stream and not self.closed

    async def sent(self) -> None:
        """Wait until it has been sent. Raises UnreachableError."""
        while self.waiting:
            await self._changed()
        if self._error is not None:
            raise self._error

    async def read(self) -> bytes | None:
        if not await self._has_message():
            return None
        message = self._messages.popleft()
        if self.credit >= WINDOW // 2 and not self._messages:
            self._connection.give_back(self)
        return message

    async def read_all(self) -> Sequence[bytes]:
        """All response messages that have come, at least one; none at the end, if the status is OK. Raises as `read`."""
        if not self._messages and not await self._has_message():
            return ()
        messages, self._messages = self._messages, deque()
        if self.credit >= WINDOW // 2:
            self._connection.give_back(self)
        return messages

    async def _has_message(self) -> bool:
        """Wait for a message; False at the end."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self.closed:
                return False
            await self._changed()
        return True

    @property
    def unread(self) -> bool:
        """Whether messages wait to be read. The server is not told to send more meanwhile, so it stops after a window."""
        return bool(self._messages)

    def send(self, body: bytes) -> None:
        """Send another request message. Dropped if the call has ended: `read` says why."""
        if self.open and not self.closed:
            self._connection.send(self, h2.message(body))

    def finish(self) -> None:
        """No more request messages."""
        if self.open and not self.closed:
            self.open = False
            self._connection.send(self, b"")

    async def _changed(self) -> None:
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def cancel(self) -> None:
        """Make the server stop now. Harmless once the call has ended."""
        if not self.closed:
            self._connection.cancel(self)

    # What the connection calls --------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes of the answer. Raises ProtocolError."""
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._needed:
                return
            data = bytes(buffer)
            buffer.clear()
        at, start, end = 0, h2.MESSAGE_HEAD_BYTES, len(data)
        needed = h2.MESSAGE_HEAD_BYTES
        while start <= end:
            compressed, size = h2.parse_message_head(data, at)
            if compressed:
                raise h2.ProtocolError("a compressed response, though we accept none")
            if size > _MAX_MESSAGE:
                raise h2.ProtocolError(f"a response of {size} bytes, more than {_MAX_MESSAGE}")
            stop = start + size
            if stop > end:
                needed += size
                break
            self._messages.append(data[start:stop])
            at, start = stop, stop + h2.MESSAGE_HEAD_BYTES
        if at < end:
            buffer += data[at:]
            self._needed = needed
        if self._messages:
            self.wake()

    def end(self, error: GrpcError | UnreachableError | None) -> None:
        if not self.closed:
            self.closed = True
            self._error = error
            self.unsent = None
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
