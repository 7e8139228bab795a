"""Keeps answers in Redis. Every failure counts as a miss, and while Redis is not connected no request waits for it."""

import asyncio
from typing import Literal, NamedTuple

import msgspec

from inference.wires.redis import RedisConnection, RedisLostError, ReplyError

_PREFIX = b"weir:answer:"
_STALLS_UNTIL_GIVEN_UP = 3  # in a row, with no answer in time between them
_HUNG_AFTER_S = 1.0  # without any answer: then the connection is given up
_MAX_VALUE_BYTES = 1 << 20  # longer answers are not stored


class StoredAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Enough to replay an answer as a stream or as a whole."""

    text: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int


class Lookup(NamedTuple):
    """`outcome` is `weir.cache.outcome`. `skipped` means that Redis did not say whether it has the answer."""

    answer: StoredAnswer | None
    outcome: Literal["hit", "miss", "skipped"]

    @property
    def skipped(self) -> bool:
        return self.outcome == "skipped"


_MISS, SKIPPED = Lookup(None, "miss"), Lookup(None, "skipped")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredAnswer).decode


class Cache:
    def __init__(self, redis: RedisConnection) -> None:
        self._redis = redis
        self._stalls = 0
        self._stall_since_s = -1.0  # of the last one counted

    @property
    def up(self) -> bool:
        return self._redis.up

    async def get(self, key: bytes, timeout_s: float) -> Lookup:
        """Look an answer up within `timeout_s`. Never raises."""
        if not self._redis.up:
            return SKIPPED
        loop = asyncio.get_running_loop()
        try:
            reply = self._redis.send(b"GET", _PREFIX + key)
            timer = loop.call_later(timeout_s, _expire, reply)
            try:
                value = await reply
            finally:
                timer.cancel()
        except RedisLostError:
            return SKIPPED
        except TimeoutError:
            self._late(loop.time())
            return SKIPPED
        self._stalls = 0
        if value is None:
            return _MISS
        if not isinstance(value, bytes):
            if isinstance(value, ReplyError):
                self._redis.note_refusal(value)
            return SKIPPED
        try:
            return Lookup(_decode(value), "hit")
        except msgspec.DecodeError:
            return _MISS  # of another layout: it will be overwritten

    async def put(self, key: bytes, answer: StoredAnswer, ttl_s: int) -> bool:
        """Store an answer. Returns whether Redis took it."""
        value = _encode(answer)
        if len(value) > _MAX_VALUE_BYTES or ttl_s <= 0:
            return False
        try:
            reply = await self._redis.send(b"SET", _PREFIX + key, value, b"EX", ttl_s, hurry=False)
        except RedisLostError:
            return False
        if isinstance(reply, ReplyError):
            self._redis.note_refusal(reply)
            return False
        self._redis.note_write()
        return reply == b"OK"

    def _late(self, now_s: float) -> None:
        """Count a stall: all lookups that are late while Redis sends nothing count once."""
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
