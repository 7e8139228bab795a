"""Keeps vectors in Redis' vector sets: two of each bucket, which are written and expire in turn. Every failure counts as nothing near.

A member is never removed, nor changed: VREM and VADD with CAS have crashed Redis 8. A member is the key of the answer in the exact cache,
so that an answer that has expired, or was never stored, is none. Beside it lies an entry: the vector in 16 bits a number, because a set
has 8, and the words of the text as hashes.
"""

import asyncio
import struct
import time
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from inference.core.semantic.vectors import pack, similarity
from inference.wires.redis import RedisClient, RedisLostError, ReplyError

_SET, _ENTRY = b"weir:semantic:set:", b"weir:semantic:entry:"
_APART = b"weir:semantic:apart:"
_APART_S = 30 * 86_400
_NEAREST = 4  # of each set
MAX_MEMBERS = 5_000  # of a set, and so 10,000 of a bucket
NO_VECTOR_SETS = "its Redis has no vector sets: use Redis 8, or one with the module"
NO_REDIS = "its Redis is not connected"
NOT_KNOWN = "it is not known yet whether its Redis has vector sets"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    vector: bytes
    words: bytes


class Near(msgspec.Struct, frozen=True):
    """A text whose answer may do. `key` is that of the exact cache."""

    key: bytes
    similarity: float
    words: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class VectorStore:
    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._refused = NOT_KNOWN

    @property
    def reason(self) -> str:
        """Why nothing can be looked up; empty where it can."""
        return self._refused if self._redis.up else NO_REDIS

    @property
    def full(self) -> bool:
        """Whether nothing new is kept."""
        return bool(self._redis.refusal)

    async def probe(self, timeout_s: float) -> None:
        """Find out whether this Redis has vector sets. Never raises."""
        if not self._redis.up:
            return
        try:
            reply = await self._redis.send(b"VCARD", _SET + b"none", timeout_s=timeout_s)
        except (RedisLostError, TimeoutError):
            return
        self._refused = self._why(reply) if isinstance(reply, ReplyError) else ""

    def _why(self, refusal: ReplyError) -> str:
        self._redis.note_refusal(refusal)
        return NO_VECTOR_SETS if "unknown command" in str(refusal) else f"its Redis refuses: {refusal}"

    async def nearest(
        self, bucket: bytes, own_key: bytes, vector: Sequence[float], ttl_s: int, timeout_s: float
    ) -> list[Near] | None:
        """The nearest texts, the nearest first, without the request's own and those that people have set apart from it; None where Redis
        did not say. Never raises.
        """
        blob, now = struct.pack(f"<{len(vector)}f", *vector), int(time.time()) // ttl_s
        searches = [(b"VSIM", _set_of(bucket, number), b"FP32", blob, b"COUNT", _NEAREST) for number in (now, now - 1)]
        members = await self._all(searches, timeout_s)
        if members is None:
            return None
        keys = dict.fromkeys(key for reply in members if isinstance(reply, list) for key in reply)
        known = [key for key in keys if isinstance(key, bytes) and key != own_key]
        entries = [(b"GET", _ENTRY + bucket + key) for key in known]
        replies = await self._all([*entries, *((b"EXISTS", _apart(own_key, key)) for key in known)], timeout_s)
        if replies is None:
            return None
        near = list[Near]()
        for key, value, apart in zip(known, replies[: len(known)], replies[len(known) :], strict=True):
            if apart:
                continue
            try:
                entry = _decode(value) if isinstance(value, bytes) else None
            except msgspec.DecodeError:
                continue
            if entry is not None:
                near.append(Near(key, similarity(vector, entry.vector), entry.words))
        return sorted(near, key=lambda it: it.similarity, reverse=True)

    async def set_apart(self, key: bytes, other: bytes, timeout_s: float) -> bool:
        """Let neither of two texts have the other's answer. Never raises."""
        return await self._all([(b"SET", _apart(key, other), 1, b"EX", _APART_S)], timeout_s) is not None

    async def add(
        self, bucket: bytes, key: bytes, vector: Sequence[float], words: bytes, ttl_s: int, timeout_s: float
    ) -> bool:
        """Keep a text whose answer is in the exact cache under `key`. Never raises."""
        name = _set_of(bucket, int(time.time()) // ttl_s)
        stands = await self._all([(b"VCARD", name), (b"VISMEMBER", name, key)], timeout_s)
        if stands is None or not isinstance(stands[0], int) or stands[0] >= MAX_MEMBERS or stands[1]:
            return False
        blob = struct.pack(f"<{len(vector)}f", *vector)
        replies = await self._all(
            [
                (b"SET", _ENTRY + bucket + key, _encode(Entry(pack(vector), words)), b"EX", ttl_s),
                (b"VADD", name, b"FP32", blob, key, b"Q8"),
                (b"EXPIRE", name, 2 * ttl_s),
            ],
            timeout_s,
        )
        return replies is not None

    async def _all(self, commands: Sequence[tuple[bytes | int, ...]], timeout_s: float) -> list[object] | None:
        """The replies; None where one of them did not come, or refuses."""
        try:
            futures = [self._redis.send(*command, timeout_s=timeout_s) for command in commands]
        except RedisLostError:
            return None
        replies = await asyncio.gather(*futures, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, ReplyError) and (why := self._why(reply)) == NO_VECTOR_SETS:
                self._refused = why
            if isinstance(reply, BaseException):
                return None
        return list(replies)


def _apart(key: bytes, other: bytes) -> bytes:
    return _APART + blake2b(min(key, other) + max(key, other), digest_size=16).digest()


def _set_of(bucket: bytes, number: int) -> bytes:
    return b"%s%s:%d" % (_SET, bucket, number)
