"""Keeps a connection to one endpoint: connects with the first call, and again after the connection was lost."""

import asyncio
import socket
import ssl

from inference.contract.address import is_ip, parse_address
from inference.core.backend_errors import UnreachableError
from inference.wires.connect import ANYHOW, Address, Connecting, close, connect
from inference.wires.grpc import http2 as h2
from inference.wires.grpc.call import Call
from inference.wires.grpc.connection import Connection
from inference.wires.grpc.errors import CallFailedError, Status
from inference.wires.grpc.keepalive import Keepalive
from inference.wires.grpc.tls import Tls, context

_BACKOFF_FIRST_S = 0.02
_MAX_BACKOFF_S = 1.0
_RESOLVE_S = 30.0  # how long a connection counts as one to the address that its name has


class Channel:
    """`target` is host:port. After a failed attempt to connect, calls fail at once until the back-off (20 ms,
    doubling to 1 s) is over.

    A name is looked up with each attempt, and every address that it has is tried. While calls are made it is looked up again
    every 30 s; when it does not have the connection's address any more, new calls go to the address that it has, and those
    in flight end where they are.
    """

    def __init__(
        self, target: str, connect_timeout_s: float = 1.0, tls: Tls | None = None, keepalive: Keepalive | None = None
    ) -> None:
        self.target = target
        self._host, self._port = parse_address(target)
        self._named = not is_ip(self._host)
        self._connect_timeout_s = connect_timeout_s
        self.tls = tls
        self._keepalive = keepalive or Keepalive()
        self.peer = ""  # the connection's address
        self._resolve_at_s = 0.0
        self._resolving: asyncio.Task[None] | None = None
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

    async def call(
        self,
        path: bytes,
        body: bytes | None,
        metadata: bytes = b"",
        priority: int = 1,
        connecting: Connecting = ANYHOW,
    ) -> Call:
        """Start a call with one request message; without a body, messages follow by `Call.send`. Raises UnreachableError.

        While the server is at its limit of calls, it waits (`Call.waiting`), the lowest `priority` first.
        """
        connection = self._connection
        if self._named and connection is not None and connection.loop.time() > self._resolve_at_s:
            self._resolve_soon(connection)
        if connection is None or not connection.usable:
            connection = await self._connect(connecting.within_s)
            connecting.done()
        return connection.start(path, body, metadata, priority)

    async def unary(
        self, path: bytes, body: bytes, timeout_s: float, metadata: bytes = b"", priority: int = 1
    ) -> bytes:
        """One request, one response. Raises UnreachableError, and GrpcError: DEADLINE_EXCEEDED after `timeout_s`, which the
        server learns too.
        """
        call: Call | None = None
        deadline = h2.literal(b"grpc-timeout", b"%dm" % max(1, round(timeout_s * 1000)))
        try:
            async with asyncio.timeout(timeout_s):
                call = await self.call(path, body, deadline + metadata, priority)
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

    def renew(self) -> None:
        """Drop the connection if no call uses it: the next call makes a new one."""
        if not self.calls:
            self.disconnect()

    def disconnect(self) -> None:
        """Drop the connection at once; calls in flight fail as LostCallError. The next call connects again."""
        if self._connection is not None:
            self._connection.abort()

    def close(self) -> None:
        """No more calls; those in flight go on."""
        self._closed = True
        for task in (self._connecting, self._resolving):
            if task is not None:
                task.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _connect(self, within_s: float) -> Connection:
        if self._closed:
            raise UnreachableError("the channel is closed")
        if self._connecting is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._not_before_s:
                raise UnreachableError(f"{self.target} did not answer a moment ago")
            self._connecting = loop.create_task(self._open())
        # Shielded: one caller that leaves must not fail the others that wait for the same connection.
        try:
            async with asyncio.timeout(within_s or None):
                made = await asyncio.shield(self._connecting)
        except TimeoutError:
            raise UnreachableError(f"cannot connect to {self.target}: not within {within_s:g} s") from None
        if isinstance(made, UnreachableError):
            raise UnreachableError(made.message)
        return made

    async def _open(self) -> Connection | UnreachableError:
        """Returns its error: the caller may have left, and asyncio logs an exception that nobody retrieves."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection, peer = await self._reach()
        except (OSError, TimeoutError, UnreachableError, ValueError) as error:  # ValueError: no host can have this name
            self._backoff_s = min(_MAX_BACKOFF_S, max(_BACKOFF_FIRST_S, self._backoff_s * 2))
            self._not_before_s = loop.time() + self._backoff_s
            return UnreachableError(f"cannot connect to {self.target}: {error or 'timed out'}")
        finally:
            self._connecting = None
        self._backoff_s = 0.0
        if self._connection is not None:  # one that drains
            self._arrivals += self._connection.arrivals
        self._connection, self.peer = connection, peer
        self._resolve_at_s = loop.time() + _RESOLVE_S
        return connection

    async def _reach(self) -> tuple[Connection, str]:
        """A connection, and the address that it goes to: the first that answers. One that speaks no HTTP/2 then, within its share of
        the time, is left to the others.
        """
        security = None if self.tls is None else await asyncio.to_thread(context, self.tls)
        addresses = await self._resolve()
        while True:
            made = await connect(addresses)
            peer = str(made.getpeername()[0])
            others = [address for address in addresses if address[1][0] != peer]
            try:
                async with asyncio.timeout(self._connect_timeout_s / len(addresses) if others else None):
                    return await self._speak(made, security), peer
            except (OSError, TimeoutError, UnreachableError):
                close(made)
                if not others:
                    raise
            addresses = others

    async def _speak(self, made: socket.socket, security: ssl.SSLContext | None) -> Connection:
        scheme = b"http" if security is None else b"https"
        name = None if self.tls is None else self.tls.server_name or self._host
        connection = Connection(self.target, scheme, self._keepalive, self._lost)
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: connection,
                sock=made,
                ssl=security,
                server_hostname=name,
            )
            secured = transport.get_extra_info("ssl_object")
            if secured is not None and secured.selected_alpn_protocol() != "h2":
                raise UnreachableError("the server does not offer HTTP/2 over TLS (ALPN h2)")
            await connection.ready
        except BaseException:
            connection.abort()
            connection.connection_lost(None)  # uvloop does not say so itself where connecting was cancelled
            raise
        return connection

    async def _resolve(self) -> list[Address]:
        infos = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((family, address) for family, *_, address in infos))  # type: ignore[misc]

    def _resolve_soon(self, connection: Connection) -> None:
        self._resolve_at_s = connection.loop.time() + _RESOLVE_S
        if self._resolving is None or self._resolving.done():
            self._resolving = connection.loop.create_task(self._follow(connection))

    async def _follow(self, connection: Connection) -> None:
        """Begin no more calls on a connection to an address that the name does not have any more."""
        try:
            addresses = await self._resolve()
        except (OSError, ValueError):
            return  # the name server is away; the connection works
        if all(address[1][0] != self.peer for address in addresses) and self._connection is connection:
            connection.close()

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._arrivals += connection.arrivals
            self._connection = None


def metadata(*pairs: tuple[bytes, bytes]) -> bytes:
    """Headers for `Channel.call`, encoded."""
    return b"".join(h2.literal(name, value) for name, value in pairs)
