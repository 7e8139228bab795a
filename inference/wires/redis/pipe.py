"""One connection to a Redis server, with one write per turn of the event loop while it is busy."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

import hiredis

from inference.contract.errors import RetryableError
from inference.wires.connect import watch_over

ReplyError = hiredis.ReplyError
"""An error reply of Redis."""

Argument = bytes | str | int
MAX_PENDING = 10_000
"""Commands without a reply; no more are sent."""

_WRITE_DELAY_S = 0.002


class RedisLostError(RetryableError, ConnectionError):
    """Redis is not connected, or the connection was lost before the reply."""


class Pipe(asyncio.Protocol):
    """The socket. Replies come in the order of the commands. `refused` gets each that is an error."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self.loop.create_future()
        self._transport: asyncio.Transport | None = None
        self.refused: Callable[[ReplyError], None] | None = None
        self._reader = hiredis.Reader(protocolError=RedisLostError, replyError=self._error)
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._out: list[bytes] = []
        self._flushing = False
        self._flush_later = False
        self.quiet_since_s = 0.0  # when Redis last sent something, or got the first command after that

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        made = transport.get_extra_info("socket")
        if made.family != socket.AF_UNIX:
            watch_over(made)

    def send(self, *command: Argument, hurry: bool = True) -> asyncio.Future[object]:
        """Send a command. The future fails with RedisLostError, or holds the reply (an error reply as `ReplyError`).
        Without `hurry` it is sent with the next hurried command, after 2 ms at most.
        """
        if self._transport is None or len(self._waiting) >= MAX_PENDING:
            raise RedisLostError("not connected")
        packed = hiredis.pack_command(cast(tuple[bytes], command))  # first: what cannot be packed gets no reply either
        reply: asyncio.Future[object] = self.loop.create_future()
        if not self._waiting:
            self.quiet_since_s = self.loop.time()
        self._waiting.append(reply)
        self._out.append(packed)
        if not hurry:
            if not self._flush_later:
                self._flush_later = True
                self.loop.call_later(_WRITE_DELAY_S, self._flush_delayed)
        elif len(self._waiting) == len(self._out):  # Redis has answered all that was sent: it waits
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)
        return reply

    def _flush_delayed(self) -> None:
        self._flush_later = False
        self._flush()

    def _flush(self) -> None:
        out, self._out, self._flushing = self._out, [], False
        if self._transport is not None and out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def data_received(self, data: bytes) -> None:
        self.quiet_since_s = self.loop.time()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
        except (RedisLostError, IndexError):
            self.abort()

    def _error(self, said: str) -> ReplyError:
        error = ReplyError(said)
        if self.refused is not None:
            self.refused(error)
        return error

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, deque()
        for reply in waiting:
            fail(reply, RedisLostError(str(error or "closed by Redis")))
        if not self.lost.done():
            self.lost.set_result(None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def fail(reply: asyncio.Future[object], error: Exception) -> None:
    """Set `error` without a warning where nobody awaits it: the request that sent the command may have ended."""
    if not reply.done():
        reply.set_exception(error)
        reply.exception()
