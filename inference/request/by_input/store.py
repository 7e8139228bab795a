"""Keeps the items of answers in Redis, by input. Every failure counts as if nothing were kept.

They go over the connection of all lookups a few at a time, so that the many items of a list hold up no other one for long.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from inference.core.passing.embeddings import Frame
from inference.request.long_body import at_once_or_aside
from inference.wires.redis import RedisClient, RedisLostError

_PREFIX = b"weir:input:{%s}:"  # with a hash tag: in a cluster, all of a list lies on one node
_FRAME = b"frame"
MAX_ITEM_BYTES = 32 << 10
"""A list of the most inputs is then as long as an answer may be (`inference/request/attempt.py`)."""
_WRITE_BYTES = 256 << 10  # sent to Redis before its replies are awaited
_WRITE_TIMEOUT_S = 1.0
_AT_ONCE = 32
"""Items that are looked up with one command: at most a megabyte."""
_INPUTS_PER_TIMEOUT = 128
"""A lookup of so many inputs may take as long as that of an answer; one of more takes longer, and saves more."""


class KeptItem(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of an input: its tokens, and its item of an answer."""

    tokens: int
    before: bytes
    after: bytes


class KeptFrame(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of an answer beside its items."""

    frame: Frame
    headers: tuple[tuple[bytes, bytes], ...]


class Kept(NamedTuple):
    """What there is for a list. `items` are by the digests of their inputs; without a frame there are none."""

    frame: KeptFrame | None
    items: dict[bytes, KeptItem]


_encode = msgspec.msgpack.Encoder().encode
_decode_item = msgspec.msgpack.Decoder(KeptItem).decode
_decode_frame = msgspec.msgpack.Decoder(KeptFrame).decode


class InputStore:
    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis

    @property
    def up(self) -> bool:
        return self._redis.up

    async def get(self, rest_key: bytes, digests: Sequence[bytes], timeout_s: float) -> Kept | None:
        """What is kept for inputs with these digests of requests whose rest has this key; None where Redis does not say. Never
        raises.
        """
        prefix = _PREFIX % rest_key.hex().encode()
        loop, names = asyncio.get_running_loop(), [_FRAME, *digests]
        until_s = loop.time() + timeout_s * (1 + len(digests) // _INPUTS_PER_TIMEOUT)
        values = list[object]()
        for at in range(0, len(names), _AT_ONCE):
            keys = [prefix + name for name in names[at : at + _AT_ONCE]]
            try:
                reply = await self._redis.send(b"MGET", *keys, timeout_s=max(0.0, until_s - loop.time()))
            except (RedisLostError, TimeoutError):
                return None
            if not isinstance(reply, list):
                return None
            values += reply
            if values[0] is None:  # without a frame no item is of use
                break
        return await at_once_or_aside(
            partial(_read, values, digests), sum(len(it) for it in values if isinstance(it, bytes))
        )

    async def put(self, rest_key: bytes, frame: KeptFrame | None, items: Mapping[bytes, KeptItem], ttl_s: int) -> int:
        """Keep these, a part after the other, so that not more than a little of them waits in memory. How many bytes Redis took, 0 where
        not all. Never raises.
        """
        prefix = _PREFIX % rest_key.hex().encode()
        values = [(digest, it) for digest, it in items.items() if len(it.before) + len(it.after) <= MAX_ITEM_BYTES]
        size, before, replies, taken = 0, 0, list[asyncio.Future[object]](), True
        for name, value in (*values, *([(_FRAME, frame)] if frame is not None else [])):
            encoded = _encode(value)
            command = (b"SET", prefix + name, encoded, b"EX", ttl_s)
            try:
                replies.append(self._redis.send(*command, timeout_s=_WRITE_TIMEOUT_S))
            except RedisLostError:
                return 0
            size += len(encoded)
            if size - before >= _WRITE_BYTES:
                taken &= _took(await asyncio.gather(*replies, return_exceptions=True))
                before, replies = size, []
        taken &= _took(await asyncio.gather(*replies, return_exceptions=True))
        return size if taken else 0


def _took(replies: Sequence[object]) -> bool:
    return all(reply == b"OK" for reply in replies)


def _read(reply: Sequence[object], digests: Sequence[bytes]) -> Kept:
    frame_value, *values = reply
    try:
        frame = _decode_frame(frame_value) if isinstance(frame_value, bytes) else None
    except msgspec.DecodeError:
        frame = None
    items = dict[bytes, KeptItem]()
    for digest, value in zip(digests, values if frame is not None else (), strict=False):
        if isinstance(value, bytes):
            try:
                items[digest] = _decode_item(value)
            except msgspec.DecodeError:
                continue  # of another layout: it will be overwritten
    return Kept(frame, items)
