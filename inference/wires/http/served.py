"""A client's connection as the server sees it: what is kept for it, whether its client reads, and how it ends.

`connection` speaks HTTP/1.1 over it, `http2` HTTP/2.
"""

import asyncio
import time
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from inference.wires.http.server import Server

UNREAD_BYTES = 64 << 10  # past this a client reads too slowly: its requests wait, and it is not read from
_DISCARD_BYTES = 16 << 20  # after the last request; then the connection is cut


class Served(asyncio.Protocol):
    """What all connections have in common."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._loop = server.loop
        self._transport: asyncio.Transport | None = None
        self._discarding = False  # no more requests are taken, and data is thrown away
        self._discarded_bytes = 0
        self._refused = False  # because the client sent what cannot be read; it may be sending still
        self._sent_bytes = 0
        self._due_bytes, self._due_since_s = 0, 0.0  # bytes that are to leave, and since when
        self._finished_s = 0.0  # when the last answer was written; 0 before that
        self.held_bytes = 0  # of requests that are read, wait or are answered
        self.known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)

    def eof_received(self) -> bool:
        return False  # a client that sends no more counts as having left: close, which cancels its requests

    # Serving --------------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether a request is expected: the first one, or the rest of one that has begun."""
        raise NotImplementedError

    @property
    def since_s(self) -> float:
        """Since when it has been idle, or has been reading a request."""
        raise NotImplementedError

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        raise NotImplementedError

    def look_at_streams(self, now_s: float) -> None:
        """End streams that take too long, where the protocol has streams. Called about once a second."""

    def leave(self) -> None:
        """Let the client know that the server is leaving, where nothing is under way and the protocol can say so then."""

    def hold(self, size: int) -> None:
        if self._transport is not None:
            self.held_bytes += size
            self._server.hold(size)

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes > _DISCARD_BYTES:
            self.abort()

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._sent_bytes += len(data)
            self._transport.write(data)

    @property
    def peer(self) -> str:
        """The client's address without its port; empty once the connection is lost."""
        address = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(address[0]) if address else ""

    # The end --------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End it once everything written has gone out, and the client has closed or some seconds have passed.

        Until then data is read and thrown away: closing with unread bytes would make the kernel reset the connection,
        and the client could lose the answer (RFC 9112, 9.6).
        """
        if self._transport is None or self._finished_s:
            return
        self._finished_s = time.monotonic()
        self._discarding = True
        self._take_no_more()
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        elif not self._refused:  # TLS has no half-closed connections; an error's end is known by its length
            self._transport.close()

    def _take_no_more(self) -> None:
        """What was read and not begun is forgotten; reading goes on, and throws away."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it when nothing is due."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut it, and lose what has not gone out."""
        if self._transport is not None:
            self.hold(-self.held_bytes)
            transport, self._transport = self._transport, None
            transport.abort()

    @property
    def kept_bytes(self) -> int:
        """Everything kept for it."""
        return self.held_bytes + self.unread_bytes

    @property
    def unread_bytes(self) -> int:
        """Bytes written that have not gone out yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def is_unread(self, now_s: float, limit_s: float) -> bool:
        """Whether bytes written at least `limit_s` ago have still not gone out. Call it about once a second."""
        if self._sent_bytes - self.unread_bytes >= self._due_bytes:
            self._due_bytes, self._due_since_s = self._sent_bytes, now_s
            return False
        return now_s - self._due_since_s > limit_s

    def is_over(self, now_s: float, limit_s: float) -> bool:
        """Whether the last answer went out, and the client has had `limit_s` to close."""
        return bool(self._finished_s) and not self.unread_bytes and now_s - self._finished_s > limit_s
