"""What the HTTP edge and the application say to each other."""

from http import HTTPStatus
from typing import Protocol

Headers = list[tuple[bytes, bytes]]


class Request:
    """A request, read to its end. Header names are in lower case; `received_ns` is on the monotonic clock, when its
    last byte was read.
    """

    __slots__ = ("body", "headers", "method", "path", "received_ns")

    def __init__(self, method: str, path: str, headers: dict[bytes, bytes], body: bytes, received_ns: int) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.received_ns = received_ns


class Exchange(Protocol):
    """Where the answer goes. Writing after the client left does nothing: the request's task is being cancelled then."""

    @property
    def started(self) -> bool:
        """Whether a stream has begun: the status is out and cannot be changed."""

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
