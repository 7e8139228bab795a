"""Sends the commands of all requests over one pipelined Redis connection, with one write per turn of the event loop.

redis-py needs about three times the CPU per GET, which is most of what a cache hit may cost (docs/gateway.md has the
figures). The parser is the one that redis-py uses, hiredis. When the connection is lost, all commands without a reply
fail at once, and a new connection is made in the background.
"""

import asyncio
import ssl
from collections import deque
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis
import structlog

from inference.core.errors import RetryableError
from inference.tasks import keep

ReplyError = hiredis.ReplyError
"""An error reply of Redis."""

_log = structlog.get_logger()
_CONNECT_TIMEOUT_S = 1.0
_BACKOFF_FIRST_S = 0.05
_BACKOFF_MOST_S = 1.0
_WRITE_DELAY_S = 0.002
_REFUSED = ("READONLY", "LOADING", "MASTERDOWN")  # after a failover: the name belongs to another server, or will soon
_REFUSED_PAUSE_S = 1.0  # at least, between two connections made for that reason
_MAX_PENDING = 10_000  # commands without a reply; no more are sent


class RedisLostError(RetryableError, ConnectionError):
    """Redis is not connected, or the connection was lost before the reply."""


class _Pipe(asyncio.Protocol):
    """The socket. Replies come in the order of the commands."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self.loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(protocolError=RedisLostError)
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._out: list[bytes] = []
        self._flushing = False
        self.quiet_since_s = 0.0  # when Redis last sent something, or got the first command after that

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, *command: bytes | str | int, hurry: bool = True) -> asyncio.Future[object]:
        """Send a command. The future fails with RedisLostError, or holds the reply (an error reply as
        `hiredis.ReplyError`). Without `hurry` it is sent with the next hurried command, after 2 ms at most.
        """
        if self._transport is None or len(self._waiting) >= _MAX_PENDING:
            raise RedisLostError("not connected")
        reply: asyncio.Future[object] = self.loop.create_future()
        if not self._waiting:
            self.quiet_since_s = self.loop.time()
        self._waiting.append(reply)
        if not hurry:
            self.loop.call_later(_WRITE_DELAY_S, self._flush)
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(cast(tuple[bytes], command)))
        return reply

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

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, deque()
        for reply in waiting:
            if not reply.done():
                reply.set_exception(RedisLostError(str(error or "closed by Redis")))
                reply.exception()  # marks it as seen: the request that sent the command may have ended
        if not self.lost.done():
            self.lost.set_result(None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class RedisConnection:
    """Keeps one connection to `url`. While `up` is False, no command is sent and no request waits for Redis."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f"WEIR_REDIS_URL has scheme {parts.scheme!r}: use redis://, rediss:// or unix://")
        self._unix = unquote(parts.path) if parts.scheme == "unix" else None
        self._tls = ssl.create_default_context() if parts.scheme == "rediss" else None
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 6379
        query = parse_qs(parts.query)
        self._db = int(query.get("db", [""])[0] or (parts.path.strip("/") if not self._unix else "") or 0)
        self._user, self._password = unquote(parts.username or "default"), unquote(parts.password or "")
        self._pipe: _Pipe | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused = ""  # the kind of the last refusal, until Redis takes a write again
        self._refused_at_s = -_REFUSED_PAUSE_S
        self.where = self._unix or f"{self._host}:{self._port}"  # for logs: no password

    @property
    def up(self) -> bool:
        return self._pipe is not None

    @property
    def quiet_since_s(self) -> float:
        """Since when Redis has sent nothing though a reply is due, on the event loop's clock."""
        return self._pipe.quiet_since_s if self._pipe is not None else 0.0

    def start(self) -> None:
        self._task = keep("redis", self._keep)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._pipe is not None:
            self._pipe.abort()

    def send(self, *command: bytes | str | int, hurry: bool = True) -> asyncio.Future[object]:
        """Send a command. Raises RedisLostError."""
        if self._pipe is None:
            raise RedisLostError("not connected")
        return self._pipe.send(*command, hurry=hurry)

    def restart(self) -> None:
        """Drop this connection. A new one is made as soon as Redis answers."""
        if self._pipe is not None:
            self._pipe.abort()
            self._pipe = None

    def note_refusal(self, error: hiredis.ReplyError) -> None:
        """Handle an error reply. If it says that this server is not the master, look the name up again and connect anew,
        at most once a second. Until then the answers of this server are used.
        """
        kind = str(error).partition(" ")[0]
        if kind not in _REFUSED:
            return
        if kind != self._refused:
            _log.warning("redis.command_refused", where=self.where, reason=str(error), effect="connecting anew")
            self._refused = kind
        now_s = asyncio.get_running_loop().time()
        if now_s - self._refused_at_s >= _REFUSED_PAUSE_S:
            self._refused_at_s = now_s
            self.restart()

    def note_write(self) -> None:
        """Redis has taken a write."""
        self._refused = ""

    async def _keep(self) -> None:
        backoff_s, reported = _BACKOFF_FIRST_S, False
        while True:
            try:
                pipe = await self._connect()
            except (
                OSError,
                TimeoutError,
                ValueError,
                hiredis.ReplyError,
            ) as error:  # ValueError: no host can have this name
                if not reported:
                    _log.warning(
                        "redis.lost",
                        where=self.where,
                        reason=str(error) or "timed out",
                        effect="serving without the cache",
                    )
                    reported = True
                await asyncio.sleep(backoff_s)
                backoff_s = min(_BACKOFF_MOST_S, backoff_s * 2)
                continue
            if reported:
                _log.info("redis.connected", where=self.where)
            backoff_s, reported = _BACKOFF_FIRST_S, False
            self._pipe = pipe
            try:
                await pipe.lost
            finally:
                self._pipe = None

    async def _connect(self) -> _Pipe:
        loop = asyncio.get_running_loop()
        pipe: _Pipe | None = None
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                if self._unix:
                    _, pipe = await loop.create_unix_connection(_Pipe, self._unix)
                else:
                    _, pipe = await loop.create_connection(_Pipe, self._host, self._port, ssl=self._tls)
                if self._password:
                    self._check(await pipe.send("AUTH", self._user, self._password))
                self._check(await pipe.send("SELECT", self._db))  # the reply shows that Redis works
                return pipe
        except BaseException:
            if pipe is not None:
                pipe.abort()
            raise

    @staticmethod
    def _check(reply: object) -> None:
        if isinstance(reply, Exception):
            raise reply
