"""One request over HTTP/2 and its answer."""

import asyncio
from typing import TYPE_CHECKING

from inference.core import http2 as h2
from inference.core.http2_heads import RequestHead, field, status_field
from inference.core.openai import errors
from inference.observability.spans import now_ns
from inference.wires.http.exchange import Dated, Headers, Request
from inference.wires.http.served import UNREAD_BYTES

if TYPE_CHECKING:
    from inference.wires.http.http2 import Http2Connection
    from inference.wires.http.outflow import Outflow

_COUNT_BYTES = 4 << 10  # smaller heads and bodies are not counted
_CAUGHT_UP_BYTES = UNREAD_BYTES // 4
_REST_S = 2.0  # curl 7.88 forgets an answer where the rest of its request is refused together with it
_NO_HEAD = RequestHead("", "", {}, -1, 0)  # of a request that is malformed
_date = Dated(lambda text: field(b"date", text.encode()))


class Stream:
    """What the connection knows of a stream, and where the answer goes. Implements `http.Exchange`."""

    __slots__ = (
        "_body",
        "_connection",
        "_drain",
        "_out",
        "_pending",
        "_received_bytes",
        "_uncounted_bytes",
        "answered",
        "begun_s",
        "complete",
        "ends",
        "head",
        "held_bytes",
        "identity",
        "large",
        "moved",
        "moved_s",
        "open",
        "queued",
        "receive_window",
        "refused",
        "reset_code",
        "started",
        "task",
        "unsent",
        "uploading",
        "window",
    )

    def __init__(self, connection: "Http2Connection", out: "Outflow", identity: int, begun_s: float) -> None:
        self._connection, self._out = connection, out
        self.identity = identity
        self.head = _NO_HEAD
        self.begun_s = begun_s
        # The request.
        self._body: bytes | bytearray = b""
        self._received_bytes = self._uncounted_bytes = 0
        self.receive_window = h2.DEFAULT_WINDOW
        self.complete = False  # read to its end
        self.refused = False  # whatever else comes of it is thrown away
        self.large = False  # its body is
        self.uploading = False  # and a window for the whole of it
        self.held_bytes = 0
        self.task: asyncio.Task[None] | None = None
        # The answer.
        self.started = False
        self.open = True  # neither side has ended the stream
        self.window = out.initial_window
        self.unsent = bytearray()  # for lack of a window, or because the connection is not read
        self.ends = False  # nothing comes after what is unsent
        self.answered = False  # its end has been sent
        self.queued = False  # among the streams that have something to send, and a window for it
        self.moved, self.moved_s = False, begun_s  # whether some of it left since the last look; when it did
        self.reset_code = h2.NO_ERROR  # for one that is malformed
        self._pending = b""  # the head of a stream that has no data yet
        self._drain: asyncio.Future[None] | None = None

    def begin(self, head: RequestHead) -> None:
        self.head = head
        if head.size >= _COUNT_BYTES:
            self.hold(head.size)

    def take(self, data: bytes, ends: bool, most_bytes: int) -> None:
        """Keep a part of the body. Raises ApiError where it is too long, or not as long as the client said."""
        received = self._received_bytes = self._received_bytes + len(data)
        if received > most_bytes:
            raise errors.body_too_large(most_bytes)
        length = self.head.length
        if length >= 0 and (received > length or (ends and received < length)):
            more = "more" if received > length else "fewer"
            raise errors.invalid(f"The body has {more} bytes than content-length says, {length}.", code="bad_request")
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data
        self._uncounted_bytes += len(data)
        if self._uncounted_bytes >= _COUNT_BYTES:
            self.hold(self._uncounted_bytes)
            self._uncounted_bytes = 0

    def request(self) -> Request:
        """The whole request. Raises ApiError where its head announced a body that does not come."""
        self.complete = True
        if self.head.length > self._received_bytes:
            raise errors.invalid("content-length announces a body, and the request has none.", code="bad_request")
        head, body, self._body = self.head, self._body, b""
        whole = body if isinstance(body, bytes) else bytes(body)
        return Request(head.method, head.path, head.headers, whole, now_ns(), version="2")

    def overdue(self, now_s: float, read_timeout_s: float, write_timeout_s: float) -> tuple[bool, bool, bool]:
        """Whether the request comes too slowly, whether the answer is not read, and whether the answer has gone out and the
        request is not needed any more (RFC 9113, 8.1).
        """
        if not self.unsent or self.moved:
            self.moved, self.moved_s = False, now_s
        waits_s = now_s - self.begun_s
        timed_out = not (self.complete or self.refused) and waits_s > read_timeout_s
        return timed_out, now_s - self.moved_s > write_timeout_s, self.answered and waits_s > _REST_S

    def caught_up(self) -> None:
        """Let the application write again, if little is left to be sent or nobody wants it any more."""
        if self._drain is not None and (len(self.unsent) <= _CAUGHT_UP_BYTES or not self.open):
            if not self._drain.done():
                self._drain.set_result(None)
            self._drain = None

    def hold(self, size: int) -> None:
        self.held_bytes += size
        self._connection.hold(size)

    # http.Exchange --------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        return self._connection.known

    @known.setter
    def known(self, known: bool) -> None:
        self._connection.known = known

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def blocked(self) -> bool:
        return len(self.unsent) > UNREAD_BYTES

    async def drained(self, timeout_s: float) -> None:
        if self.blocked and self.open:
            if self._drain is None:
                self._drain = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._drain)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.started = True
        block = _block(status, headers) + field(b"content-length", b"%d" % len(body))
        self._out.send(self, block, b"" if self.head.method == "HEAD" else body, True)

    def start_stream(self, headers: Headers) -> None:
        """Begin a 200 whose length is not known. The head goes out with the first data."""
        self.started = True
        self._pending = _block(200, headers)

    def write(self, data: bytes) -> None:
        head, self._pending = self._pending, b""
        self._out.send(self, head, data, False)

    def end_stream(self, data: bytes = b"") -> None:
        """Send the last data, if any, and the end."""
        head, self._pending = self._pending, b""
        self._out.send(self, head, data, True)

    def abort(self) -> None:
        """End the stream alone; its connection may have others."""
        self._connection.reset(self, h2.CANCEL, cancel=False)


def _block(status: int, headers: Headers) -> bytes:
    return b"".join((status_field(status), _date(), *[field(name, value) for name, value in headers]))
