"""People's word that an answer was not theirs: the two texts are set apart, and it is a wrong label."""

from typing import Literal

import msgspec

from inference.core.semantic.evidence import Label
from inference.request.semantic.labels import Labels
from inference.request.semantic.store import VectorStore
from inference.wires.redis import RedisClient, RedisLostError, ReplyError

_SERVED = b"weir:semantic:served:"
_SERVED_S = 7 * 86_400
_WITHIN_S = 1.0
_MAX_ID_CHARS = 64


class Served(msgspec.Struct, frozen=True, array_like=True):
    """A similar request's answer that was given: whose request it was, and the keys of both in the exact cache."""

    tenant: str
    route: bytes
    key: bytes
    other: bytes
    similarity: float


class NotSame(msgspec.Struct):
    """The body of a mark. `request_id` is the answer's `x-request-id`."""

    request_id: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Served).decode


class Marks:
    def __init__(self, redis: RedisClient, store: VectorStore, labels: Labels) -> None:
        self._redis, self._store, self._labels = redis, store, labels

    def remember(self, request_id: str, served: Served) -> None:
        """So that its client can say that it was not the same. Never raises."""
        try:
            self._redis.send(b"SET", _SERVED + request_id.encode(), _encode(served), b"EX", _SERVED_S, hurry=False)
        except RedisLostError:
            return

    async def not_same(self, request_id: str, tenant: str) -> Literal["taken", "unknown", "unavailable"]:
        """Take a client's word, once for each answer, of the tenant that got it alone. Never raises."""
        if len(request_id) > _MAX_ID_CHARS:
            return "unknown"
        key = _SERVED + request_id.encode("utf-8", "replace")
        try:
            value = await self._redis.send(b"GET", key, timeout_s=_WITHIN_S)
            if value is None:
                return "unknown"
            served = _decode(value) if isinstance(value, bytes) else None
            if served is None:
                return "unavailable"
            if served.tenant != tenant:
                return "unknown"
            if not await self._store.set_apart(served.key, served.other, _WITHIN_S):
                return "unavailable"
            deleted = await self._redis.send(b"DEL", key, timeout_s=_WITHIN_S)
        except (RedisLostError, TimeoutError):
            return "unavailable"
        except msgspec.DecodeError:
            return "unknown"
        if isinstance(deleted, ReplyError):
            return "unavailable"
        if deleted == 1:  # else another call has labelled it
            self._labels.add(served.route, Label(served.similarity, wrong=True), request_id, mark=True)
        return "taken"
