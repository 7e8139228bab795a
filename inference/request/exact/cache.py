"""Keeps answers in Redis. Every failure counts as a miss, and while Redis is not connected no request waits for it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from time import time
from typing import Literal, NamedTuple

import msgspec

from inference.core.events import WholeAnswer
from inference.request.exact.copies import Copies
from inference.wires.redis import RedisClient, RedisLostError

_PREFIX = b"weir:answer:"
_MAX_VALUE_BYTES = 1 << 20  # longer answers are not stored


class Lookup(NamedTuple):
    """`outcome` is `weir.cache.outcome`. `skipped` means that Redis did not say whether it has the answer."""

    answer: WholeAnswer | None
    outcome: Literal["hit", "miss", "skipped"]
    stale: bool = False

    @property
    def skipped(self) -> bool:
        return self.outcome == "skipped"


_MISS, SKIPPED = Lookup(None, "miss"), Lookup(None, "skipped")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WholeAnswer).decode


class Cache:
    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._copies = Copies()

    @property
    def up(self) -> bool:
        return self._redis.up

    async def get(
        self, key: bytes, timeout_s: float, max_age_s: int | None = None, *, stale: bool = False, tenant: str = ""
    ) -> Lookup:
        """Look an answer up within `timeout_s`; one that is older than `max_age_s`, or of unknown age then, is none, and neither is a
        stale one without `stale`. A copy of it is kept for a moment in the share of `tenant`, if that is given. Never raises.
        """
        if not self._redis.up:
            return SKIPPED
        copy, dropped = self._copies.get(key), self._copies.dropped
        if copy is not None and (lookup := _judged(copy, max_age_s)).answer is not None:
            return lookup
        try:
            value = await self._redis.send(b"GET", _PREFIX + key, timeout_s=timeout_s)
        except (RedisLostError, TimeoutError):
            return SKIPPED
        if value is None:
            return _MISS
        if not isinstance(value, bytes):
            return SKIPPED
        try:
            answer = _decode(value)
        except msgspec.DecodeError:
            return _MISS  # of another layout: it will be overwritten
        if tenant and dropped == self._copies.dropped:  # else it may be older than what was written meanwhile
            self._copies.add(key, answer, tenant, len(value))
        return _judged(answer, max_age_s, stale=stale)

    async def first(
        self, keys: Sequence[bytes], timeout_s: float, max_age_s: int | None = None, *, tenant: str = ""
    ) -> tuple[Lookup, int]:
        """The answer of the first of `keys` that has one, and its number. All are looked up at once. Never raises."""
        lookups = await asyncio.gather(*(self.get(key, timeout_s, max_age_s, tenant=tenant) for key in keys))
        return next(
            ((lookup, number) for number, lookup in enumerate(lookups) if lookup.answer is not None), (lookups[-1], -1)
        )

    def put(self, key: bytes, answer: WholeAnswer, ttl_s: int, stale_for_s: int = 0) -> asyncio.Future[int]:
        """Store an answer, which is stale after `ttl_s`. The future says how many bytes Redis took, 0 where none, and never fails."""
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        handed = 0 if answer.handed is None else len(answer.handed.body)
        self._copies.drop(key)
        if ttl_s > 0:
            fresh_until_s, ttl_s = int(time()) + ttl_s, ttl_s + stale_for_s
            answer = msgspec.structs.replace(
                answer, fresh_until_s=fresh_until_s if stale_for_s else 0, expires_s=fresh_until_s + stale_for_s
            )
        # A body that is too long by itself is not copied to see that.
        value = _encode(answer) if ttl_s > 0 and handed <= _MAX_VALUE_BYTES else b""
        if not 0 < len(value) <= _MAX_VALUE_BYTES:
            stored.set_result(0)
            return stored
        try:
            reply = self._redis.send(b"SET", _PREFIX + key, value, b"EX", ttl_s, hurry=False)
        except RedisLostError:
            stored.set_result(0)
        else:
            reply.add_done_callback(partial(self._stored, stored, len(value)))
        return stored

    def _stored(self, stored: asyncio.Future[int], size: int, done: asyncio.Future[object]) -> None:
        reply = None if done.cancelled() or done.exception() is not None else done.result()
        if not stored.done():
            stored.set_result(size if reply == b"OK" else 0)


def _judged(answer: WholeAnswer, max_age_s: int | None, *, stale: bool = False) -> Lookup:
    if max_age_s is not None and time() - answer.made_s > max_age_s:
        return _MISS
    if answer.fresh_until_s and time() >= answer.fresh_until_s:
        return Lookup(answer, "hit", stale=True) if stale else _MISS
    return Lookup(answer, "hit")
