"""The exact answer cache in Redis. It may help and never hurts: every failure is a miss, and a Redis that is gone
costs nothing.
"""

import asyncio
from typing import NamedTuple

import msgspec

from inference.wires.redis import RedisConnection, RedisGoneError, ReplyError

_PREFIX = b"weir:answer:"
_STALLS_UNTIL_GIVEN_UP = 3  # in a row, without an answer in time between them: too slow to be of use
_HUNG_AFTER_S = 1.0  # without any answer: a Redis that hangs is treated as one that is gone
_MAX_VALUE_BYTES = 1 << 20  # an answer past that is not worth its place


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What is stored: enough to replay the answer as a stream or whole."""

    text: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int


class Lookup(NamedTuple):
    """`skipped` means that Redis did not say whether it has the answer."""

    answer: Answer | None
    skipped: bool


_MISS, _SKIPPED = Lookup(None, False), Lookup(None, True)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class Cache:
    def __init__(self, redis: RedisConnection) -> None:
        self._redis = redis
        self._stalls = 0
        self._stall_since_s = -1.0  # of the last one counted

    @property
    def up(self) -> bool:
        return self._redis.up

    async def get(self, key: bytes, timeout_s: float) -> Lookup:
        """Never raises, and never takes longer than `timeout_s`."""
        if not self._redis.up:
            return _SKIPPED
        loop = asyncio.get_running_loop()
        try:
            reply = self._redis.ask(b"GET", _PREFIX + key)
            timer = loop.call_later(timeout_s, _expire, reply)
            try:
                value = await reply
            finally:
                timer.cancel()
        except RedisGoneError:
            return _SKIPPED
        except TimeoutError:
            self._late(loop.time())
            return _SKIPPED
        self._stalls = 0
        if value is None:
            return _MISS
        if not isinstance(value, bytes):
            if isinstance(value, ReplyError):
                self._redis.refused(value)
            return _SKIPPED
        try:
            return Lookup(_decode(value), False)
        except msgspec.DecodeError:
            return _MISS  # not ours, or of another layout: it will be overwritten

    async def put(self, key: bytes, answer: Answer, ttl_s: int) -> bool:
        """Store an answer; whether Redis took it."""
        value = _encode(answer)
        if len(value) > _MAX_VALUE_BYTES or ttl_s <= 0:
            return False
        try:
            reply = await self._redis.ask(b"SET", _PREFIX + key, value, b"EX", ttl_s, hurry=False)
        except RedisGoneError:
            return False
        if isinstance(reply, ReplyError):
            self._redis.refused(reply)
            return False
        self._redis.took()
        return reply == b"OK"

    def _late(self, now_s: float) -> None:
        """A lookup was not answered in time. All that wait while Redis sends nothing are one stall, which counts once."""
        since_s = self._redis.quiet_since_s
        if since_s != self._stall_since_s:
            self._stall_since_s = since_s
            self._stalls += 1
        if self._redis.up and (self._stalls >= _STALLS_UNTIL_GIVEN_UP or now_s - since_s >= _HUNG_AFTER_S):
            self._stalls = 0
            self._redis.restart()


def _expire(reply: asyncio.Future[object]) -> None:
    if not reply.done():
        reply.set_exception(TimeoutError())
