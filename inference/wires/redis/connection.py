"""Sends the commands of all requests over one pipelined connection to one server.

redis-py needs about three times the CPU per GET, which is most of what a cache hit may cost (docs/gateway.md has the
figures). The parser is the one that redis-py uses, hiredis. When the connection is lost, all commands without a reply
fail at once, and a new connection is made in the background. Which server is the master of a name, redis-py finds out.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

from inference.wires.redis.client import RedisClient
from inference.wires.redis.pipe import Argument, Pipe, ReplyError
from inference.wires.redis.url import RedisUrl

_CONNECT_TIMEOUT_S = 1.0
_SENTINEL_TIMEOUT_S = 0.3  # for each sentinel, which are tried one after the other


class RedisConnection(RedisClient):
    """A server, or the master that sentinels name each time a connection is made."""

    def __init__(self, url: RedisUrl) -> None:
        super().__init__(url)
        self._tls = ssl.create_default_context() if url.tls else None
        self._pipe: Pipe | None = None
        self._master: Callable[[], Awaitable[tuple[str, int]]] | None = None
        if url.master:
            from inference.wires.redis.sentinels import master  # redis-py, a sixth of what the gateway imports

            self._master = partial(master, url, _SENTINEL_TIMEOUT_S)

    @property
    def quiet_since_s(self) -> float:
        return self._pipe.quiet_since_s if self._pipe is not None else 0.0

    async def close(self) -> None:
        await super().close()
        self._abort()

    def restart(self) -> None:
        self.up = False
        self._abort()

    def _send(self, command: tuple[Argument, ...], hurry: bool) -> asyncio.Future[object]:
        assert self._pipe is not None
        return self._pipe.send(*command, hurry=hurry)

    async def _lost(self) -> None:
        assert self._pipe is not None
        await self._pipe.lost

    def _abort(self) -> None:
        if self._pipe is not None:
            self._pipe.abort()

    async def _connect(self) -> None:
        url, loop = self.url, asyncio.get_running_loop()
        pipe: Pipe | None = None
        try:
            timeout_s = _CONNECT_TIMEOUT_S + (_SENTINEL_TIMEOUT_S * len(url.hosts) if url.master else 0)
            async with asyncio.timeout(timeout_s):
                if url.path:
                    _, pipe = await loop.create_unix_connection(Pipe, url.path)
                else:
                    host, port = await self._master() if self._master else url.hosts[0]
                    _, pipe = await loop.create_connection(Pipe, host, port, ssl=self._tls)
                if url.password:
                    _check(await pipe.send("AUTH", url.user, url.password))
                _check(await pipe.send("SELECT", url.database))  # the reply shows that Redis works
                if url.master:
                    role = _check(await pipe.send("ROLE"))
                    if not isinstance(role, list) or role[0] != b"master":
                        raise ConnectionError(
                            "the sentinels name a server that is not a master, until they have agreed"
                        )
            self._pipe, pipe.refused = pipe, self._note_refusal
        except BaseException:
            if pipe is not None:
                pipe.abort()
            raise


def _check(reply: object) -> object:
    if isinstance(reply, ReplyError):
        raise reply
    return reply
