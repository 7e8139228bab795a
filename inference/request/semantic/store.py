"""Keeps vectors in Redis' vector sets, or in RediSearch. Every failure counts as nothing near.

A member of an index is the key of the answer in the exact cache, so that an answer that has expired, or was never stored, is none. Beside
it lies an entry: the vector in 16 bits a number, because a set has 8, and the words of the text as hashes.
"""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from inference.core.semantic.vectors import pack, similarity
from inference.request.semantic.indices import Command, SearchIndex, VectorIndex, VectorSets
from inference.wires.redis import RedisClient, RedisLostError, ReplyError

_ENTRY, _APART = b"weir:semantic:entry:", b"weir:semantic:apart:"
_APART_S = 30 * 86_400
_HAS: Command = (b"COMMAND", b"INFO", b"VSIM", b"FT.SEARCH")
NO_VECTORS = "its Redis has neither vector sets nor RediSearch: use Redis 8, or one with either module"
OTHER_DATABASE = "RediSearch knows database 0 alone: name no other in WEIR_REDIS_URL"
NO_REDIS = "its Redis is not connected"
NOT_KNOWN = "it is not known yet what its Redis has for vectors"


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
        self._sets, self._search = VectorSets(), SearchIndex()
        self._index: VectorIndex = self._sets
        self._unkept = ""

    @property
    def reason(self) -> str:
        """Why nothing can be looked up; empty where it can."""
        return self._refused if self._redis.up else NO_REDIS

    @property
    def unkept(self) -> str:
        """Why nothing new is kept; empty where that is not known."""
        return "its Redis takes nothing new" if self._redis.refusal else self._unkept

    async def probe(self, timeout_s: float) -> None:
        """Find out what this Redis has for vectors: sets are preferred. Never raises."""
        url = self._redis.url
        # RediSearch searches one node of a cluster.
        known = None if url.kind == "cluster" else await self._reply(_HAS, timeout_s)
        searches = isinstance(known, list) and known[0] is None and known[1] is not None
        index: VectorIndex = self._search if searches else self._sets
        reply = await self._reply(index.probe, timeout_s)
        if reply is None:
            return
        index.note(reply)
        self._index, self._refused = index, OTHER_DATABASE if searches and url.database else ""
        if isinstance(reply, ReplyError):
            self._refused = _why(reply)

    async def _reply(self, command: Command, timeout_s: float) -> object | None:
        """None where there is none."""
        try:
            return await self._redis.send(*command, timeout_s=timeout_s)
        except (RedisLostError, TimeoutError):
            return None

    async def nearest(
        self, bucket: bytes, own_key: bytes, vector: Sequence[float], ttl_s: int, timeout_s: float
    ) -> list[Near] | None:
        """The nearest texts, the nearest first, without the request's own and those that people have set apart from it; None where Redis
        did not say. Never raises.
        """
        index = self._index
        replies = await self._all(index.searches(bucket, vector, ttl_s), timeout_s)
        if not isinstance(replies, list):
            return None
        members = dict.fromkeys(index.members(bucket, len(vector), replies))
        known = [key for key in members if key != own_key]
        entries = [(b"GET", _ENTRY + bucket + key) for key in known]
        replies = await self._all([*entries, *((b"EXISTS", _apart(own_key, key)) for key in known)], timeout_s)
        if not isinstance(replies, list):
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
        return await self._all([(b"SET", _apart(key, other), 1, b"EX", _APART_S)], timeout_s) == [b"OK"]

    async def add(
        self, bucket: bytes, key: bytes, vector: Sequence[float], words: bytes, ttl_s: int, timeout_s: float
    ) -> bool:
        """Keep a text whose answer is in the exact cache under `key`. Never raises."""
        index, dimensions = self._index, len(vector)
        replies = await self._all(index.stands(bucket, key, dimensions, ttl_s), timeout_s)
        if isinstance(replies, list):
            if not index.takes(replies):
                return False
            entry: Command = (b"SET", _ENTRY + bucket + key, _encode(Entry(pack(vector), words)), b"EX", ttl_s)
            replies = await self._all([entry, *index.adds(bucket, key, vector, ttl_s)], timeout_s)
        refused = isinstance(replies, ReplyError) and not self._redis.refusal
        self._unkept = f"its Redis refuses: {replies}" if refused else ""
        return isinstance(replies, list)

    async def _all(self, commands: Sequence[Command], timeout_s: float) -> list[object] | ReplyError | None:
        """The replies; the first that refuses, or None where one did not come."""
        try:
            futures = [self._redis.send(*command, timeout_s=timeout_s) for command in commands]
        except RedisLostError:
            return None
        replies = await asyncio.gather(*futures, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, ReplyError) and (why := _why(reply)) == NO_VECTORS:
                self._refused = why
            if isinstance(reply, BaseException):
                return reply if isinstance(reply, ReplyError) else None
        return list(replies)


def _why(refusal: ReplyError) -> str:
    return NO_VECTORS if "unknown command" in str(refusal) else f"its Redis refuses: {refusal}"


def _apart(key: bytes, other: bytes) -> bytes:
    return _APART + blake2b(min(key, other) + max(key, other), digest_size=16).digest()
