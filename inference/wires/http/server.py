"""Listens, bounds the number, time and memory of connections, and ends them.

docs/gateway.md compares it with other servers.
"""

import asyncio
import resource
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import TypeVar

import structlog

from inference.contract.tls.certificate import ServerCertificate
from inference.wires.http.connection import App, Connection
from inference.wires.http.exchange import EdgeCounts
from inference.wires.http.tls import Handshakes

_log = structlog.get_logger()
_BACKLOG = 1024
# The kernel doubles it. Without it, the buffer of each client that does not read may grow to megabytes.
_SEND_BUFFER_BYTES = 64 << 10
_SWEEP_S = 1.0
_FINISH_S = 5.0  # a client may take so long to close after its last answer, and to read that during shutdown
_QUIET_S = 1.0  # in shutdown, a connection is closed after so long idle: on a younger one a request may be on its way
_OTHER_FILES = 256  # open files for everything but clients

T = TypeVar("T")


class Server:
    """`admit` gets the headers of a request with a large body before that is read, and raises ApiError to refuse it.

    Connections without a known key may hold a quarter of `max_buffered_bytes`. `streams` says, by method and path, how many bytes of a
    request's body are handed on while they come; 0 has it read first.
    """

    def __init__(
        self,
        app: App,
        admit: Callable[[dict[bytes, bytes]], object],
        *,
        max_body_bytes: int,
        max_connections: int,
        max_buffered_bytes: int,
        read_timeout_s: float,
        write_timeout_s: float,
        idle_timeout_s: float,
        counts: EdgeCounts,
        certificate: ServerCertificate | None = None,
        streams: Callable[[str, str], int] = lambda _method, _path: 0,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.app = app
        self.admit = admit
        self.max_body_bytes = max_body_bytes
        self.streams = streams
        self.connections: set[Connection] = set()
        self.closing = False  # clients are to go elsewhere
        self.draining = False  # and no new connections are accepted
        self.held_bytes = 0
        self._max_connections = max_connections
        self._max_buffered_bytes = max_buffered_bytes
        self._shed_above_bytes = max_buffered_bytes // 4
        self.read_timeout_s, self._idle_timeout_s = read_timeout_s, idle_timeout_s
        self.write_timeout_s = write_timeout_s
        self.counts = counts
        self._full_until_s = 0.0
        self._certificate = certificate
        self._handshakes: Handshakes | None = None
        self._stop_listening: list[Callable[[], object]] = []
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, *, shared: bool = False) -> int:
        """Listen. Returns the port: `port`, or a free one if that is 0. Raises OSError.

        `shared` lets other processes listen on the same port; the kernel spreads new connections over them.
        """
        self._max_connections = _room_for(self._max_connections)
        sockets = await self._bind(host, port, shared)
        if self._certificate is None:
            for listening in sockets:
                server = await self.loop.create_server(lambda: Connection(self), sock=listening, backlog=_BACKLOG)
                self._stop_listening.append(server.close)
        else:
            self._handshakes = Handshakes(
                self._certificate,
                lambda: Connection(self),
                self._has_room,
                handshake_s=self.read_timeout_s,
                shutdown_s=_FINISH_S,
            )
            self._stop_listening.append(self._handshakes.close)
            for listening in sockets:
                listening.listen(_BACKLOG)
                self._stop_listening.append(self.loop.create_task(self._handshakes.accept(listening)).cancel)
        self._sweeper = self.loop.create_task(self._sweep())
        return int(sockets[0].getsockname()[1])

    async def _bind(self, host: str, port: int, shared: bool) -> list[socket.socket]:
        out: list[socket.socket] = []
        try:
            for family, kind, number, _, address in dict.fromkeys(
                await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            ):
                out.append(listening := socket.socket(family, kind, number))
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if shared:
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                # What it accepts inherits this.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
                listening.bind(address)
        except OSError:
            for listening in out:
                listening.close()
            raise
        return out

    # Called by connections ------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        if len(self.connections) >= self._max_connections and not self._make_room():
            self.counts.refused += 1
            connection.abort()
            return
        self.connections.add(connection)

    def lost(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def hold(self, size: int) -> None:
        """Count `size` more (or fewer) bytes as kept for a client."""
        self.held_bytes += size
        if size > 0 and self.held_bytes > self._shed_above_bytes:
            self._shed()

    # Bounds ---------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Whether a connection may be accepted for its handshake. If there are too many, the oldest handshake ends, or
        connections that wait without a known key.
        """
        assert self._handshakes is not None
        if len(self.connections) + len(self._handshakes) < self._max_connections:
            return True
        if self._handshakes.drop_oldest():
            self.counts.evicted += 1
            return True
        if self._make_room():
            return True
        self.counts.refused += 1
        return False

    def _make_room(self) -> bool:
        """End some connections that wait and have no known key, the longest first. Returns False if there is none."""
        now_s = time.monotonic()
        if now_s < self._full_until_s:
            return False
        waiting = [connection for connection in self.connections if not connection.known and not connection.busy]
        waiting.sort(key=lambda connection: connection.since_s)
        for connection in waiting[: max(1, self._max_connections // 16)]:
            self.counts.evicted += 1
            self.connections.discard(connection)
            connection.abort()
        if not waiting:
            self._full_until_s = now_s + _SWEEP_S  # until then no new connection has to search thousands
        return bool(waiting)

    def _shed(self) -> None:
        """Cut the connections that hold most, if all together hold too much."""
        sizes = [(connection, connection.known, connection.kept_bytes) for connection in self.connections]
        for connection in too_much(sizes, self._max_buffered_bytes):
            self.counts.shed += 1
            self.connections.discard(connection)
            connection.abort()
        quarter = self._max_buffered_bytes // 4
        self._shed_above_bytes = max(quarter, self.held_bytes + quarter // 8)  # not again for each byte

    async def _sweep(self) -> None:
        while True:
            before = replace(self.counts)
            await asyncio.sleep(_SWEEP_S)
            now_s = time.monotonic()
            for connection in list(self.connections):
                self._look_at(connection, now_s)
            self._shed()
            self._shed_above_bytes = self._max_buffered_bytes // 4
            if self._certificate is not None:
                self._certificate.reload()
            if (self.counts.refused, self.counts.evicted, self.counts.shed) != (
                before.refused,
                before.evicted,
                before.shed,
            ):
                _log.warning("edge.limits_reached", connections=len(self.connections), **asdict(self.counts))

    def _look_at(self, connection: Connection, now_s: float) -> None:
        """End it if it takes too long to read an answer, to send a request, or to begin another one."""
        if connection.is_unread(now_s, self.write_timeout_s):
            self.counts.unread += 1
            connection.abort()
        elif connection.is_over(now_s, _FINISH_S):
            connection.abort()
        elif not connection.busy:
            limit_s = self.read_timeout_s if connection.reading else self._idle_timeout_s
            if now_s - connection.since_s > limit_s:
                self.counts.timed_out += 1
                connection.close()

    # The end --------------------------------------------------------------------------------------

    async def close(self, lame_duck_s: float, timeout_s: float, hurry: asyncio.Event) -> None:
        """End within `lame_duck_s` + `timeout_s`. First answer as before, with `Connection: close` after it, so that
        balancers can see that the gateway leaves. Then accept no more, and let requests in flight finish and their
        answers go out. Then cut what is left. `hurry` ends the first two phases at once.
        """
        self.closing = True
        await _pause(hurry, lame_duck_s)
        self.draining = True
        for stop in self._stop_listening:
            stop()
        until_s = time.monotonic() + timeout_s
        while self.connections and not hurry.is_set() and (now_s := time.monotonic()) < until_s:
            for connection in list(self.connections):
                self._finish(connection, now_s)
            await _pause(hurry, 0.02)
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self.connections:
            _log.warning(
                "edge.connections_cut",
                connections=len(self.connections),
                busy=sum(connection.busy for connection in self.connections),
            )
        for connection in list(self.connections):
            connection.abort()
        while self.connections:  # noqa: ASYNC110  (the loop calls `lost` for each in its next turn)
            await asyncio.sleep(0.01)

    @staticmethod
    def _finish(connection: Connection, now_s: float) -> None:
        if connection.is_unread(now_s, _FINISH_S) or connection.is_over(now_s, _QUIET_S):
            connection.abort()
        elif not connection.busy and now_s - connection.since_s > (_FINISH_S if connection.reading else _QUIET_S):
            connection.finish()


def too_much(sizes: Iterable[tuple[T, bool, int]], limit_bytes: int) -> list[T]:
    """The connections to cut. `sizes` gives each with whether it has a known key, and how many bytes it holds.

    None is cut while all together hold at most `limit_bytes`, and those without a key at most a quarter of that. Else
    those without a key are cut first, the largest before the smaller, until half of their quarter or three quarters of
    the whole is left.
    """
    ranked = sorted((entry for entry in sizes if entry[2]), key=lambda entry: (entry[1], -entry[2]))
    total = sum(size for _, _, size in ranked)
    unknown = sum(size for _, known, size in ranked if not known)
    keep = limit_bytes * 3 // 4 if total > limit_bytes else total
    keep_unknown = limit_bytes // 8 if unknown > limit_bytes // 4 else unknown
    out: list[T] = []
    for connection, known, size in ranked:
        if total <= keep and (known or unknown <= keep_unknown):
            break
        out.append(connection)
        total -= size
        unknown -= 0 if known else size
    return out


async def _pause(hurry: asyncio.Event, seconds: float) -> None:
    """Sleep until the time is over or `hurry` is set."""
    try:
        async with asyncio.timeout(seconds):
            await hurry.wait()
    except TimeoutError:
        pass


def _room_for(connections: int) -> int:
    """Raise the limit of open files. Returns how many of the wanted connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    room = max(1, soft - _OTHER_FILES)
    _log.warning("edge.connections_limited", wanted=connections, possible=room, open_files=soft)
    return room
