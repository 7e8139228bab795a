"""Makes vectors of texts by a model of the fleet. Each embedding is a request of its tenant, with a row of its own in the ledger, linked
to the request that it is for.
"""

import asyncio
import struct
from base64 import b64decode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from inference.core.events import WholeAnswer
from inference.core.semantic.vectors import CANARY, Canary, pack, similarity, unit
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import Trace
from inference.request import own_requests
from inference.request.own_requests import Helper
from inference.snapshot.serving import Caller, Serving
from inference.wires.redis import RedisClient, RedisLostError

PATH = "/v1/embeddings"
_CANARY = b"weir:semantic:canary:"
_CANARY_S = 30 * 86_400
MAX_EMBEDDERS = 64

Vector = tuple[float, ...]


class Embedders:
    """What embedders were seen. Whether one is still the same is asked now and then: a text that all gateways embed has to keep its
    vector, which is kept in Redis. With another vector it is another embedder, so that no bucket and no evidence of before counts.
    """

    def __init__(self, redis: RedisClient, export: SpanExport, metrics: Metrics) -> None:
        self._redis, self._export, self._metrics = redis, export, metrics
        self._canaries: dict[bytes, Canary] = {}
        self.changed = 0  # how often one gave other vectors than before

    def identity(self, embedder: Helper) -> bytes | None:
        """What its vectors are known by; None before its first."""
        canary = self._canaries.get(embedder.name)
        return _identity(embedder, canary.known) if canary is not None and canary.known else None

    async def embed(
        self, serving: Serving, embedder: Helper, caller: Caller, text: str, trace: Trace, timeout_s: float
    ) -> tuple[Vector, bytes] | None:
        """The vector of a text, of length 1, and the embedder's identity. None where there is none in time."""
        canary = self._canaries.get(embedder.name)
        if canary is None:
            while len(self._canaries) >= MAX_EMBEDDERS:
                del self._canaries[next(iter(self._canaries))]
            canary = self._canaries[embedder.name] = Canary()
        texts = [text, CANARY] if canary.due() or not canary.known else [text]
        try:
            async with asyncio.timeout(timeout_s):
                vectors = await self._vectors(serving, embedder, caller, texts, trace)
                if vectors is None or len({len(it) for it in vectors}) != 1:
                    canary.again()
                    return None
                if len(vectors) == 2 and not await self._compare(embedder, canary, vectors[1], timeout_s):
                    canary.again()
                    return None
        except TimeoutError:
            canary.again()
            return None
        return vectors[0], _identity(embedder, canary.known)

    async def _compare(self, embedder: Helper, canary: Canary, vector: Vector, timeout_s: float) -> bool:
        """With what all gateways know of it. False where that is not known now."""
        key = _CANARY + embedder.name
        known = await self._send(b"GET", key, timeout_s=timeout_s)
        if isinstance(known, bytes) and similarity(vector, known) >= Canary.SAME:
            canary.known = known
            return True
        if isinstance(known, bytes):
            self.changed += 1
        elif known is not None:
            return False
        if await self._send(b"SET", key, pack(vector), b"EX", _CANARY_S, timeout_s=timeout_s) != b"OK":
            return False
        canary.known = pack(vector)
        return True

    async def _send(self, *command: bytes | int, timeout_s: float) -> object:
        try:
            return await self._redis.send(*command, timeout_s=timeout_s)
        except (RedisLostError, TimeoutError) as error:
            return error

    async def _vectors(
        self, serving: Serving, embedder: Helper, caller: Caller, texts: Sequence[str], cause: Trace
    ) -> list[Vector] | None:
        document = {"input": list(texts)}
        answer = await own_requests.send(serving, caller, embedder, PATH, document, cause, self._export, self._metrics)
        return None if answer is None else _read(answer, len(texts))


def _identity(embedder: Helper, canary: bytes) -> bytes:
    return blake2b(embedder.name + canary, digest_size=16).digest()


def _read(answer: WholeAnswer, wanted: int) -> list[Vector] | None:
    """The vectors of an answer, in their order; None where they are not as many, or cannot be read."""
    vectors = list(answer.vectors) if answer.handed is None else _of_body(answer.handed.body)
    units = [unit(vector) for vector in vectors]
    whole = [vector for vector in units if vector is not None]
    return whole if len(whole) == len(units) == wanted else None


def _of_body(body: bytes) -> list[bytes]:
    try:
        data: list[dict[str, Any]] = msgspec.json.decode(body)["data"]
        given = [it["embedding"] for it in sorted(data, key=lambda it: int(it.get("index", 0)))]
        return [b64decode(it) if isinstance(it, str) else struct.pack(f"<{len(it)}f", *it) for it in given]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error):
        return []
