"""The load generator: closed loops over raw non-blocking sockets, a few microseconds of its own per request.

No HTTP client library: what it costs would be counted as the proxy's. A wire says how one protocol's answer ends.
"""

import gc
import re
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from tests.bench.processes import BenchError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PATIENCE_S = 60
_FIRST_TOKEN = re.compile(rb'"content": ?"[^"]')


class Wire(Protocol):
    """How to speak on one connection."""

    def hello(self) -> bytes:
        """What to send once, right after connecting."""

    def request(self, serial: int) -> bytes:
        """The bytes of request number `serial` of this connection's owner."""

    def complete(self, received: bytes) -> bool:
        """Whether `received`, all since the request was sent, is a whole answer. Raises BenchError on a failure."""


@dataclass(frozen=True)
class Http:
    """HTTP/1.1 with keep-alive. `body` makes the body of request `serial`: the same each time, or unique."""

    body: Callable[[int], bytes]
    path: str = "/v1/chat/completions"
    key: str = ""
    headers: str = ""

    def hello(self) -> bytes:
        return b""

    def request(self, serial: int) -> bytes:
        body = self.body(serial)
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Length: {len(body)}\r\n{self.headers}\r\n"
        ).encode() + body

    def complete(self, received: bytes) -> bool:
        if not received.startswith(b"HTTP/1.1 200") and len(received) >= 12:
            raise BenchError(f"answered {received[:600]!r}")
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return False
        length = _LENGTH.search(received, 0, head + 2)
        if length:
            return len(received) >= head + 4 + int(length[1])
        return received.endswith(b"\r\n0\r\n\r\n")


@dataclass(frozen=True)
class Load:
    """`latencies_ns` of every request; `seconds` from the first sent to the last answered."""

    latencies_ns: list[int]
    seconds: float

    @property
    def per_second(self) -> float:
        return len(self.latencies_ns) / self.seconds


class _Connection:
    __slots__ = ("buffer", "sent_ns", "socket", "started")

    def __init__(self, port: int, wire: Wire) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.sent_ns = 0
        if hello := wire.hello():
            self.socket.sendall(hello)


def closed_loop(port: int, wire: Wire, connections: int, seconds: float, serials: Iterator[int] | None = None) -> Load:
    """Keep one request in flight on each of `connections`; each next one leaves as its answer arrives.

    Sends for `seconds` and then waits for what is in flight, so that nothing is left to disturb what is measured next.
    Raises BenchError.
    """
    serials = serials if serials is not None else count()
    open_: dict[int, _Connection] = {}
    poll = select.epoll()
    latencies: list[int] = []
    clock = time.perf_counter_ns
    gc.disable()
    try:
        for _ in range(connections):
            connection = _Connection(port, wire)
            open_[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.EPOLLIN)
        start = clock()
        end = start + int(seconds * 1e9)
        for connection in open_.values():
            connection.sent_ns = clock()
            connection.socket.sendall(wire.request(next(serials)))
        outstanding = connections
        while outstanding:
            events = poll.poll(_PATIENCE_S)
            if not events:
                raise BenchError(f"port {port} left {outstanding} requests without an answer for {_PATIENCE_S} s")
            for fd, _ in events:
                connection = open_[fd]
                data = connection.socket.recv(262_144)
                if not data:
                    raise BenchError(f"closed the connection after {connection.buffer[:600]!r}")
                connection.buffer = received = connection.buffer + data if connection.buffer else data
                if not wire.complete(received):
                    continue
                now = clock()
                latencies.append(now - connection.sent_ns)
                connection.buffer = b""
                if now >= end:
                    outstanding -= 1
                    continue
                message = wire.request(next(serials))
                connection.sent_ns = clock()
                connection.socket.sendall(message)
        elapsed = (clock() - start) / 1e9
    finally:
        gc.enable()
        poll.close()
        for connection in open_.values():
            connection.socket.close()
    return Load(latencies, elapsed)


def first_tokens(port: int, wire: Wire, seconds: float, serials: Iterator[int] | None = None) -> list[int]:
    """Time from a streaming request to its first non-empty `content`, ns, one request at a time."""
    serials = serials if serials is not None else count()
    connection = _Connection(port, wire)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    end = clock() + int(seconds * 1e9)
    gc.disable()
    try:
        while clock() < end:
            message = wire.request(next(serials))
            received = b""
            first = 0
            sent = clock()
            connection.socket.sendall(message)
            while not wire.complete(received):
                data = connection.socket.recv(262_144)
                now = clock()
                if not data:
                    raise BenchError(f"closed the connection after {received[:600]!r}")
                received += data
                if not first and _FIRST_TOKEN.search(received):
                    first = now
            if not first:
                raise BenchError(f"a stream without a token: {received[:600]!r}")
            latencies.append(first - sent)
    finally:
        gc.enable()
        connection.socket.close()
    return latencies
