"""Keeps a connection to one endpoint: connects with the first call, and again after the connection was lost."""

import asyncio

from inference.core import http2 as h2
from inference.core.address import parse_address
from inference.wires.grpc.call import Call
from inference.wires.grpc.connection import Connection
from inference.wires.grpc.errors import CallFailedError, Status, UnreachableError

_BACKOFF_FIRST_S = 0.02
_BACKOFF_MOST_S = 1.0


class Channel:
    """`target` is host:port. After a failed attempt to connect, calls fail at once until the back-off (20 ms,
    doubling to 1 s) is over.
    """

    def __init__(self, target: str, connect_timeout_s: float = 1.0) -> None:
        self.target = target
        self._host, self._port = parse_address(target)
        self._connect_timeout_s = connect_timeout_s
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection | UnreachableError] | None = None
        self._backoff_s = 0.0
        self._not_before_s = 0.0
        self._closed = False
        self._arrivals = 0  # over connections before this one

    @property
    def calls(self) -> int:
        """Calls in flight."""
        return self._connection.calls if self._connection else 0

    @property
    def full(self) -> bool:
        """Whether the server is at its limit of calls."""
        return self._connection is not None and self._connection.full

    @property
    def arrivals(self) -> int:
        """How often something has arrived from the server. From a server that hangs, nothing does."""
        return self._arrivals + (self._connection.arrivals if self._connection else 0)

    async def call(self, path: bytes, body: bytes, metadata: bytes = b"", priority: int = 1) -> Call:
        """Start a call with one request message. Raises UnreachableError.

        While the server is at its limit of calls, it waits (`Call.waiting`), the lowest `priority` first.
        """
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connect()
        return connection.start(path, body, metadata, priority)

    async def unary(self, path: bytes, body: bytes, timeout_s: float, priority: int = 1) -> bytes:
        """One request, one response. Raises GrpcError, DEADLINE_EXCEEDED after `timeout_s`."""
        call: Call | None = None
        try:
            async with asyncio.timeout(timeout_s):
                call = await self.call(path, body, priority=priority)
                answer = await call.read()
                if answer is None:
                    raise CallFailedError(Status.INTERNAL, "an empty answer")
                await call.read()
                return answer
        except TimeoutError:
            raise CallFailedError(Status.DEADLINE_EXCEEDED, f"no answer within {timeout_s} s") from None
        finally:
            if call is not None:
                call.cancel()

    def ping(self) -> None:
        """Ask the server for a sign of life if calls are in flight. A server that lives answers, which counts in `arrivals`.

        Servers close connections that are pinged often while they send nothing (gRPC's ENHANCE_YOUR_CALM), so ping only to decide
        whether to disconnect.
        """
        if self._connection is not None and self._connection.calls:
            self._connection.ping()

    def disconnect(self) -> None:
        """Drop the connection at once; calls in flight fail as UnreachableError. The next call connects again."""
        if self._connection is not None:
            self._connection.abort()

    def close(self) -> None:
        """No more calls; those in flight go on."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> Connection:
        if self._closed:
            raise UnreachableError("the channel is closed")
        if self._connecting is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._not_before_s:
                raise UnreachableError(f"{self.target} did not answer a moment ago")
            self._connecting = loop.create_task(self._open())
        # Shielded: one caller that leaves must not fail the others that wait for the same connection.
        made = await asyncio.shield(self._connecting)
        if isinstance(made, UnreachableError):
            raise UnreachableError(made.message)
        return made

    async def _open(self) -> Connection | UnreachableError:
        """Returns its error: the caller may have left, and asyncio logs an exception that nobody retrieves."""
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self.target, self._lost), self._host, self._port
                )
                await connection.ready
        except (OSError, TimeoutError, UnreachableError, ValueError) as error:  # ValueError: no host can have this name
            if connection is not None:
                connection.abort()
            self._backoff_s = min(_BACKOFF_MOST_S, max(_BACKOFF_FIRST_S, self._backoff_s * 2))
            self._not_before_s = loop.time() + self._backoff_s
            return UnreachableError(f"cannot connect to {self.target}: {error or 'timed out'}")
        finally:
            self._connecting = None
        self._backoff_s = 0.0
        if self._connection is not None:  # one that drains
            self._arrivals += self._connection.arrivals
        self._connection = connection
        return connection

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._arrivals += connection.arrivals
            self._connection = None


def metadata(*pairs: tuple[bytes, bytes]) -> bytes:
    """Headers for `Channel.call`, encoded."""
    return b"".join(h2.literal(name, value) for name, value in pairs)
