"""The types between the HTTP edge and the application."""

import time
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from inference.wires.http.incoming import Incoming

Headers = list[tuple[bytes, bytes]]


class Request:
    """A request that has been read to its end, but for the body of one that has `incoming`. Header names are in lower case;
    `received_ns` is when its last byte was read, on the monotonic clock. `keep_alive`, `version` and `held_bytes` are for the connection.
    """

    __slots__ = (
        "body",
        "headers",
        "held_bytes",
        "incoming",
        "keep_alive",
        "method",
        "path",
        "query",
        "received_ns",
        "version",
    )

    def __init__(
        self,
        method: str,
        path: str,
        headers: dict[bytes, bytes],
        body: bytes,
        received_ns: int,
        keep_alive: bool = True,
        version: str = "1.1",
        held_bytes: int = 0,
        query: str = "",
        incoming: Incoming | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.received_ns = received_ns
        self.keep_alive = keep_alive
        self.version = version
        self.held_bytes = held_bytes
        self.query = query
        self.incoming = incoming


@dataclass(slots=True)
class EdgeCounts:
    """Connections that the edge ended or refused since the start, by reason."""

    refused: int = 0  # no room for another
    evicted: int = 0  # waiting without a known key, closed to make room
    timed_out: int = 0  # idle too long, or a request took too long to arrive
    unread: int = 0  # the client did not read its answers in time
    shed: int = 0  # held most when all together held too much


class Exchange(Protocol):
    """Where the answer goes. Writing does nothing after the client has left; the request's task is cancelled then."""

    @property
    def started(self) -> bool:
        """Whether a stream has begun, so that the status cannot be changed any more."""

    known: bool
    """Whether a request on this connection carried a known key. Set by whoever checks the key."""
    more: Headers
    """What the answer to this request carries beside its own headers."""

    @property
    def peer(self) -> str:
        """The client's address without its port; empty once the connection is lost."""

    def respond(self, status: int, headers: Headers, body: bytes) -> None: ...
    def start_stream(self, headers: Headers, status: int = 200) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end_stream(self, data: bytes = b"") -> None: ...
    def abort(self) -> None: ...

    @property
    def blocked(self) -> bool:
        """Whether the client reads more slowly than the gateway writes."""

    async def drained(self, timeout_s: float) -> None:
        """Wait until the client has caught up. Raises TimeoutError."""


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
# Servers and proxies have statuses of their own, such as 529: their phrase is empty (RFC 9112, 4).
STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 1000)}
JSON = (b"content-type", b"application/json")
EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")


_dated = (0, b"")  # the second, and its field


def _date() -> bytes:
    """The `Date` field. It is made once a second."""
    global _dated
    second = int(time.time())
    if second != _dated[0]:
        _dated = (second, f"date: {formatdate(second, usegmt=True)}\r\n".encode())
    return _dated[1]


def head(status: int, headers: Headers, *end: bytes) -> bytes:
    fields = [b"%s: %s\r\n" % header for header in headers]
    return b"".join((STATUS_LINES[status], _date(), *fields, *end, b"\r\n"))
