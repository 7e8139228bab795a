"""What a Redis looks like to the gateway, whether it is a server, a master that sentinels watch, or a cluster."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque

import structlog

from inference.tasks import keep
from inference.wires.redis.pipe import Argument, RedisLostError, ReplyError, fail
from inference.wires.redis.url import RedisUrl

_log = structlog.get_logger()
_BACKOFF_FIRST_S = 0.05
_MAX_BACKOFF_S = 1.0
_ELSEWHERE = ("READONLY", "LOADING", "MASTERDOWN")  # after a failover: the name belongs to another server, or will soon
_NO_WRITES = ("OOM", "MISCONF", "NOREPLICAS")  # it is full, cannot save, or has too few replicas
_REFUSED_PAUSE_S = 1.0  # at least, between two connections made because of a refusal, and until a write is tried again
_TRIED = b"weir:written"
_STALLS_UNTIL_GIVEN_UP = 3  # in a row, with no answer in time between them
_LOOKS = 2  # turns of the event loop: one of them begins after its sockets have been read
_HUNG_AFTER_S = 1.0  # without any answer: then the connection is given up
_SAY_AGAIN_S = 60.0  # at least, between two warnings of the same: a Redis may come and go


class _Said:
    """Whether to say what goes wrong: when it begins, but at most once a minute, and when that is over."""

    def __init__(self) -> None:
        self._what, self._said_s, self._lasts = "", -_SAY_AGAIN_S, False

    def begins(self, what: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if what == self._what and (self._lasts or now_s - self._said_s < _SAY_AGAIN_S):
            return False
        self._what, self._said_s, self._lasts = what, now_s, True
        return True

    def ends(self) -> bool:
        lasted, self._lasts = self._lasts, False
        return lasted


class RedisClient(ABC):
    """Keeps connected. While `up` is False, no command is sent and no request waits for Redis."""

    def __init__(self, url: RedisUrl) -> None:
        self.url = url
        self.up = False
        self._task: asyncio.Task[None] | None = None
        self.refusal = ""  # what Redis says of itself instead of taking writes, until it takes one again
        self._refused = False  # since a write was tried last
        self._trying: asyncio.Task[None] | None = None
        self._restarted_at_s = -_REFUSED_PAUSE_S
        self._due: deque[tuple[float, asyncio.Future[object]]] = deque()  # replies, by when they are late
        self._loss, self._refusal = _Said(), _Said()
        self._stalls = 0
        self._stall_since_s = -1.0  # of the last one counted

    def start(self) -> None:
        self._task = keep("redis", self._keep)

    async def close(self) -> None:
        for task in (self._task, self._trying):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    @property
    def standing(self) -> str:
        """`down`, `up`, or `up:` and why it keeps nothing new."""
        if not self.up:
            return "down"
        return f"up: its Redis takes nothing new: {self.refusal}" if self.refusal else "up"

    def send(self, *command: Argument, hurry: bool = True, timeout_s: float | None = None) -> asyncio.Future[object]:
        """Send a command; commands of one turn of the event loop share a write. The future holds the reply (an error reply
        as `ReplyError`), or fails with RedisLostError, or with TimeoutError after `timeout_s`. Without
        `hurry` it is sent with the next hurried command, after 2 ms at most. Raises RedisLostError.
        """
        if not self.up:
            raise RedisLostError("not connected")
        reply = self._send(command, hurry)
        if timeout_s is not None:
            self._watch(reply, timeout_s)
        return reply

    def _watch(self, reply: asyncio.Future[object], timeout_s: float) -> None:
        """Have a reply fail in time. Nearly all come before, and all may take equally long as a rule, so one timer is for all of
        them.
        """
        loop, due = asyncio.get_running_loop(), self._due
        at_s = loop.time() + timeout_s
        if due and at_s < due[-1][0]:
            loop.call_at(at_s, self._expire, reply)
            return
        due.append((at_s, reply))
        if len(due) == 1:
            loop.call_at(at_s, self._look)

    def _look(self) -> None:
        """Take out the replies that have come, and let those fail that are late."""
        loop, due = asyncio.get_running_loop(), self._due
        now_s = loop.time()
        while due and (due[0][0] <= now_s or due[0][1].done()):
            _, reply = due.popleft()
            if not reply.done():
                self._expire(reply)
            elif not reply.cancelled() and reply.exception() is None:
                self._stalls = 0
        if due:
            loop.call_at(due[0][0], self._look)

    def wait(self, reply: asyncio.Future[object], timeout_s: float) -> asyncio.Future[object]:
        """Another future for `reply`, which fails with TimeoutError after `timeout_s`. `reply` itself may come later."""
        waiter: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(timeout_s, self._expire, waiter)

        def copy(done: asyncio.Future[object]) -> None:
            self._answered(done, timer)
            error = RedisLostError("cancelled") if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                fail(waiter, error)
            elif not waiter.done():
                waiter.set_result(done.result())

        reply.add_done_callback(copy)
        return waiter

    def _note_refusal(self, error: ReplyError) -> None:
        """Handle an error reply to any command. One that says that this server takes no writes is said until it takes one. If it is not
        the master, look the name up again and connect anew, at most once a second; until then the answers of this server are used.
        """
        kind = str(error).partition(" ")[0]
        if kind not in _ELSEWHERE + _NO_WRITES:
            return
        if self._refusal.begins(kind):
            effect = "connecting anew" if kind in _ELSEWHERE else "nothing new is kept"
            _log.warning("redis.command_refused", where=self.url.where, reason=str(error), effect=effect)
        self.refusal, self._refused = str(error), True
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try_writes())
        now_s = asyncio.get_running_loop().time()
        if kind in _ELSEWHERE and now_s - self._restarted_at_s >= _REFUSED_PAUSE_S:
            self._restarted_at_s = now_s
            self.restart()

    async def _try_writes(self) -> None:
        """Until one is taken, and none was refused since the one before, which in a cluster may be by another node."""
        while self.refusal:
            self._refused = False
            await asyncio.sleep(_REFUSED_PAUSE_S)
            try:
                reply = await self.send(b"SET", _TRIED, b"", b"EX", 1, timeout_s=_REFUSED_PAUSE_S)
            except (RedisLostError, TimeoutError):
                continue
            if not isinstance(reply, ReplyError) and not self._refused:
                self.refusal = ""
                if self._refusal.ends():
                    _log.info("redis.takes_writes", where=self.url.where)

    @abstractmethod
    def restart(self) -> None:
        """Drop what is connected. New connections are made as soon as Redis answers."""

    @property
    @abstractmethod
    def quiet_since_s(self) -> float:
        """Since when Redis has sent nothing though a reply is due, on the event loop's clock."""

    @abstractmethod
    def _send(self, command: tuple[Argument, ...], hurry: bool) -> asyncio.Future[object]: ...

    @abstractmethod
    async def _connect(self) -> None:
        """Raises OSError, TimeoutError, ValueError, ReplyError."""

    @abstractmethod
    async def _lost(self) -> None:
        """Wait until the connection is lost."""

    @abstractmethod
    def _abort(self) -> None:
        """Close what is connected."""

    async def _keep(self) -> None:
        backoff_s = _BACKOFF_FIRST_S
        while True:
            try:
                await self._connect()
            except (OSError, TimeoutError, ValueError, ReplyError) as error:  # ValueError: no host can have this name
                if self._loss.begins("lost"):
                    reason = str(error) or "timed out"
                    effect = "serving without the cache, and each gateway counts limits alone"
                    _log.warning("redis.lost", where=self.url.where, reason=reason, effect=effect)
                await asyncio.sleep(backoff_s)
                backoff_s = min(_MAX_BACKOFF_S, backoff_s * 2)
                continue
            if self._loss.ends():
                _log.info("redis.connected", where=self.url.where)
            backoff_s = _BACKOFF_FIRST_S
            self.up = True
            try:
                await self._lost()
            finally:
                self.up = False
                self._abort()

    def _answered(self, reply: asyncio.Future[object], timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        if not reply.cancelled() and reply.exception() is None:
            self._stalls = 0

    def _expire(self, reply: asyncio.Future[object], looked: int = 0) -> None:
        """Count a stall: all replies that are late while Redis sends nothing count once.

        Where this process itself is late, the reply may be there and not read yet, so the sockets are read once before.
        """
        if reply.done():
            return
        if looked < _LOOKS:
            asyncio.get_running_loop().call_soon(self._expire, reply, looked + 1)
            return
        fail(reply, TimeoutError())
        now_s, since_s = asyncio.get_running_loop().time(), self.quiet_since_s
        if since_s != self._stall_since_s:
            self._stall_since_s = since_s
            self._stalls += 1
        if self.up and (self._stalls >= _STALLS_UNTIL_GIVEN_UP or now_s - since_s >= _HUNG_AFTER_S):
            self._stalls = 0
            self.restart()
