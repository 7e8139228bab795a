"""Sends commands to a Redis Cluster through redis-py, which knows the nodes and follows their redirections."""

import asyncio

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from inference.wires.redis.client import RedisClient
from inference.wires.redis.pipe import MAX_PENDING, Argument, RedisLostError, ReplyError, fail
from inference.wires.redis.url import RedisUrl

_CONNECT_TIMEOUT_S = 1.0
_REPLY_TIMEOUT_S = 2.0
_RETRIES = 2  # after the nodes were looked up again
_LOST_AFTER = 20  # failures in a row: then all connections are made anew
_CODES = (
    (NoScriptError, "NOSCRIPT "),
    (OutOfMemoryError, "OOM "),
    (ReadOnlyError, "READONLY "),
)  # which redis-py takes off what Redis says


class RedisClusterClient(RedisClient):
    """All nodes of a cluster. A node that fails costs the commands for its keys alone."""

    def __init__(self, url: RedisUrl) -> None:
        super().__init__(url)
        self._cluster: RedisCluster | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet_since_s = 0.0
        self._failures = 0
        self._down = asyncio.Event()

    @property
    def quiet_since_s(self) -> float:
        return self._quiet_since_s

    async def close(self) -> None:
        await super().close()
        for task in self._tasks:
            task.cancel()
        if self._cluster is not None:
            await self._cluster.aclose()

    def restart(self) -> None:
        self.up = False
        self._down.set()

    def _send(self, command: tuple[Argument, ...], hurry: bool) -> asyncio.Future[object]:
        assert self._cluster is not None
        if len(self._tasks) >= MAX_PENDING:
            raise RedisLostError("too many commands wait for the cluster")
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[object] = loop.create_future()
        if not self._tasks:
            self._quiet_since_s = loop.time()
        task = loop.create_task(self._run(self._cluster, command, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return reply

    async def _run(self, cluster: RedisCluster, command: tuple[Argument, ...], reply: asyncio.Future[object]) -> None:
        name = command[0].decode() if isinstance(command[0], bytes) else command[0]
        try:
            value: object = await cluster.execute_command(name, *command[1:])
        except ResponseError as error:
            kind = next((code for known, code in _CODES if isinstance(error, known)), "")
            value = refusal = ReplyError(f"{kind}{error}")
            self._note_refusal(refusal)
        except (RedisError, OSError, TimeoutError) as error:
            fail(reply, RedisLostError(str(error) or type(error).__name__))
            self._failures += 1
            if self._failures >= _LOST_AFTER and cluster is self._cluster:
                self.restart()
            return
        except asyncio.CancelledError:
            fail(reply, RedisLostError("closed"))
            raise
        self._failures = 0
        self._quiet_since_s = asyncio.get_running_loop().time()
        if not reply.done():
            reply.set_result(b"OK" if value is True else value)

    async def _lost(self) -> None:
        await self._down.wait()

    def _abort(self) -> None:
        """Nothing: the next `_connect` and `close` do it."""

    async def _connect(self) -> None:
        if self._cluster is not None:
            await self._cluster.aclose()
        url = self.url
        self._down.clear()
        self._failures = 0
        self._cluster = RedisCluster(
            startup_nodes=[ClusterNode(host, port) for host, port in url.hosts],
            username=url.user if url.password else None,
            password=url.password or None,
            ssl=url.tls,
            socket_connect_timeout=_CONNECT_TIMEOUT_S,
            socket_timeout=_REPLY_TIMEOUT_S,
            retry=Retry(NoBackoff(), _RETRIES),
        )
        try:
            await self._cluster.initialize()
        except RedisError as error:
            raise ConnectionError(str(error)) from error
