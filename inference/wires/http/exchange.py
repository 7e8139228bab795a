"""What the HTTP edge and the application say to each other."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

Headers = list[tuple[bytes, bytes]]


class Request:
    """A request, read to its end. Header names are in lower case; `received_ns` is on the monotonic clock, when its
    last byte was read. `keep_alive`, `version` and `held_bytes` (counted until it is answered) are the connection's.
    """

    __slots__ = ("body", "headers", "held_bytes", "keep_alive", "method", "path", "received_ns", "version")

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
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.received_ns = received_ns
        self.keep_alive = keep_alive
        self.version = version
        self.held_bytes = held_bytes


@dataclass(slots=True)
class EdgeCounts:
    """Connections that the edge ended or refused since the start, by reason."""

    refused: int = 0  # no room for another
    evicted: int = 0  # without a key and waiting, to make room
    timed_out: int = 0  # idle too long, or a request took too long to arrive
    unread: int = 0  # what was written was not read in time
    shed: int = 0  # held most of the memory while there was too little


class Exchange(Protocol):
    """Where the answer goes. Writing after the client left does nothing: the request's task is being cancelled then."""

    @property
    def started(self) -> bool:
        """Whether a stream has begun: the status is out and cannot be changed."""

    known: bool
    """Whether a request on this connection came with a key that we know. Whoever finds out sets it."""

    @property
    def peer(self) -> str:
        """The address of the other end of the connection, without its port; empty once it is gone."""

    def respond(self, status: int, headers: Headers, body: bytes) -> None: ...
    def start_stream(self, headers: Headers) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end_stream(self, data: bytes = b"") -> None: ...
    def abort(self) -> None: ...

    @property
    def blocked(self) -> bool:
        """The client reads more slowly than we write."""

    async def drained(self, timeout_s: float) -> None:
        """Wait until it has caught up. Raises TimeoutError."""


STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
JSON = (b"content-type", b"application/json")
EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")


def head(status: int, headers: Headers, *end: bytes) -> bytes:
    return b"".join((STATUS_LINES[status], *(b"%s: %s\r\n" % header for header in headers), *end, b"\r\n"))
