"""One gRPC call: a request message, and any number of response messages."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from inference.core import http2 as h2
from inference.wires.grpc.errors import GrpcError

if TYPE_CHECKING:
    from inference.wires.grpc.connection import Connection

_MAX_MESSAGE = 16 << 20  # bytes; a larger response is refused


class Call:
    """`read` returns each response message, and then None if the status is OK; else it raises GrpcError.

    While the server is at its limit of calls, a new call waits: the lowest `priority` first, and then first come, first
    served.
    """

    __slots__ = (
        "_buffer",
        "_connection",
        "_error",
        "_messages",
        "_waiter",
        "closed",
        "credit",
        "priority",
        "request",
        "stream",
        "unsent",
        "window",
    )

    def __init__(self, connection: "Connection", request: tuple[bytes, bytes, bytes], priority: int) -> None:
        self.stream = 0  # until it is sent
        self.window = 0  # bytes that may still be sent on this call
        self.credit = 0  # received bytes not yet given back to the server
        self.priority = priority
        # Path, body and metadata: kept until the server begins to answer, because a refused call is sent again.
        self.request: tuple[bytes, bytes, bytes] | None = request
        self.unsent: memoryview | None = None  # the rest of the request, for which the windows had no room
        self.closed = False
        self._connection = connection
        self._messages: deque[bytes] = deque()
        self._buffer = bytearray()
        self._error: GrpcError | None = None
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
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self.closed:
                return None
            await self._changed()
        return self._messages.popleft()

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
        buffer = self._buffer
        if not buffer and len(data) >= 5 and len(data) == 5 + int.from_bytes(data[1:5], "big"):
            self._message(data[0], data[5:])  # one whole message in one frame: the usual case
        else:
            buffer += data
            while len(buffer) >= 5:
                size = int.from_bytes(buffer[1:5], "big")
                if size > _MAX_MESSAGE:
                    raise h2.ProtocolError(f"a response of {size} bytes, more than {_MAX_MESSAGE}")
                if len(buffer) < 5 + size:
                    break
                self._message(buffer[0], bytes(buffer[5 : 5 + size]))
                del buffer[: 5 + size]
        self.wake()

    def _message(self, compressed: int, body: bytes) -> None:
        if compressed:
            raise h2.ProtocolError("a compressed response, though we accept none")
        self._messages.append(body)

    def end(self, error: GrpcError | None) -> None:
        if not self.closed:
            self.closed = True
            self._error = error
            self.unsent = None
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
