"""What a look-up costs: the search in a full bucket of a real Redis, and what a miss waits for in the gateway's own process."""

import random
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from inference.contract.snapshot import Model, Pool
from inference.core.cache_key import cache_key
from inference.core.passing.request import read
from inference.core.semantic.bucket import Fuzzy, bucket, split
from inference.core.semantic.features import features
from inference.core.semantic.vectors import unit
from inference.core.semantic.verify import difference
from inference.request.semantic.indices import MAX_MEMBERS
from inference.request.semantic.store import VectorStore
from inference.wires.redis import open_redis
from tests.bench.figures import Figure, percentile, say
from tests.bench.processes import start_redis
from tests.support.wait import eventually_async

DIMENSIONS = 384
LOOKUPS = 500
CALLS = 3000
TTL_S = 10**6  # so that all is written to two sets at most
WITHIN_S = 10.0
TEXT = "How do I move a database index from Berlin to Madrid for 40 users, and what is the usual cost?"


async def measure(folder: Path, stack: ExitStack) -> list[Figure]:
    redis = open_redis(start_redis(stack, folder).url)
    redis.start()
    try:
        await eventually_async(lambda: redis.up)
        return [*await _searched(VectorStore(redis)), *_computed()]
    finally:
        await redis.close()


async def _searched(store: VectorStore) -> list[Figure]:
    draw, name, words = random.Random(3), b"b" * 32, features(TEXT, b"k")
    say(f"filling a bucket with {MAX_MEMBERS:,} vectors of {DIMENSIONS} numbers")
    for _ in range(MAX_MEMBERS):
        await store.add(name, draw.randbytes(32), _vector(draw), words, TTL_S, WITHIN_S)
    took_us = list[int]()
    for _ in range(LOOKUPS):
        vector, began = _vector(draw), time.perf_counter_ns()
        near = await store.nearest(name, b"own", vector, TTL_S, WITHIN_S)
        took_us.append((time.perf_counter_ns() - began) // 1000)
        assert near
    about = f"{MAX_MEMBERS:,} texts, {DIMENSIONS} numbers; without the embedding"
    return [
        Figure("semantic.lookup_p50_ms", percentile(took_us, 0.5) / 1000, "ms", about),
        Figure("semantic.lookup_p95_ms", percentile(took_us, 0.95) / 1000, "ms", about),
    ]


def _computed() -> list[Figure]:
    body = b'{"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "%s"}]}' % TEXT.encode()
    model, pool = Model("m", ()), Pool("p", "v", "eu", "m", "1")
    words = features(TEXT, b"k")

    def begin() -> None:
        parts = split(read("/v1/chat/completions", "chat", body))
        assert isinstance(parts, Fuzzy)
        bucket(cache_key(parts.rest, model, pool, "t"), b"e", "t")

    def take() -> None:
        read("/v1/chat/completions", "chat", body)

    return [
        Figure("semantic.miss_added_us", _us(begin) - _us(take), "us", "what a miss waits for while nothing is served"),
        Figure(
            "semantic.verify_us", _us(lambda: difference(words, features(TEXT, b"k"))), "us", f"{len(TEXT)} characters"
        ),
    ]


def _us(call: Callable[[], object]) -> float:
    """CPU of a call, the least of five rounds."""
    rounds = list[float]()
    for _ in range(5):
        began = time.process_time_ns()
        for _ in range(CALLS):
            call()
        rounds.append((time.process_time_ns() - began) / CALLS / 1000)
    return min(rounds)


def _vector(draw: random.Random) -> tuple[float, ...]:
    vector = unit(struct.pack(f"<{DIMENSIONS}f", *(draw.gauss(0, 1) for _ in range(DIMENSIONS))))
    assert vector is not None
    return vector
