"""Vectors and labels in a real Redis: two sets of a bucket, bounds, another Redis, and what a gateway that starts reads."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inference.core.semantic.evidence import Label
from inference.request.semantic import indices
from inference.request.semantic.labels import Labels
from inference.request.semantic.store import NO_REDIS, OTHER_DATABASE, VectorStore
from inference.wires.redis import RedisClient, open_redis
from tests.support.gateway.redis_nodes import start_cluster
from tests.support.start import Start
from tests.support.wait import eventually_async

OWN, NEAR, FAR = b"own", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
TTL_S, WITHIN_S = 3600, 10.0


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[RedisClient]:
    redis = open_redis(url)
    redis.start()
    try:
        await eventually_async(lambda: redis.up)
        yield redis
    finally:
        await redis.close()


async def probed(redis: RedisClient) -> VectorStore:
    kept = VectorStore(redis)
    await kept.probe(WITHIN_S)
    assert kept.reason == ""
    return kept


async def keys(kept: VectorStore, bucket: bytes) -> list[bytes]:
    near = await kept.nearest(bucket, OWN, NEAR, TTL_S, WITHIN_S)
    assert near is not None
    return [it.key for it in near]


async def test_what_is_near_comes_first_and_other_buckets_have_nothing(vectors_url: str) -> None:
    async with connected(vectors_url) as redis:
        kept, bucket = await probed(redis), secrets.token_bytes(32)
        assert await kept.add(bucket, b"far\x00", FAR, b"words", TTL_S, WITHIN_S)
        assert await kept.add(bucket, b"near\xff", NEAR, b"words", TTL_S, WITHIN_S)
        assert await keys(kept, bucket) == [b"near\xff", b"far\x00"]
        assert await keys(kept, secrets.token_bytes(32)) == []


async def test_a_member_is_added_once_and_a_full_set_takes_no_more(
    vectors_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(vectors_url) as redis:
        kept, bucket = await probed(redis), secrets.token_bytes(32)
        assert await kept.add(bucket, b"a", NEAR, b"", TTL_S, WITHIN_S)
        assert not await kept.add(bucket, b"a", FAR, b"", TTL_S, WITHIN_S)
        monkeypatch.setattr(indices, "MAX_MEMBERS", 1)
        assert not await kept.add(bucket, b"b", NEAR, b"", TTL_S, WITHIN_S)
        assert await keys(kept, bucket) == [b"a"]


async def test_the_set_of_before_is_still_searched_and_the_one_before_it_not(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(redis_url) as redis:
        kept, bucket = VectorStore(redis), secrets.token_bytes(32)
        now = [10_000.0 * TTL_S]
        monkeypatch.setattr("inference.request.semantic.indices.time.time", lambda: now[0])
        for name in (b"1", b"2"):
            await kept.add(bucket, name, NEAR, b"", TTL_S, WITHIN_S)
            assert name in await keys(kept, bucket)
            now[0] += TTL_S
        assert await keys(kept, bucket) == [b"2"]


async def test_neither_the_own_text_nor_those_set_apart_from_it_are_near(vectors_url: str) -> None:
    async with connected(vectors_url) as redis:
        kept, bucket, apart = await probed(redis), secrets.token_bytes(32), secrets.token_bytes(32)
        for key in (OWN, apart, b"other"):
            await kept.add(bucket, key, NEAR, b"", TTL_S, WITHIN_S)
        assert await kept.set_apart(apart, OWN, WITHIN_S)
        assert await keys(kept, bucket) == [b"other"]


async def test_a_vector_of_another_length_is_nothing_near(vectors_url: str) -> None:
    async with connected(vectors_url) as redis:
        kept, bucket = await probed(redis), secrets.token_bytes(32)
        await kept.add(bucket, b"a", NEAR, b"", TTL_S, WITHIN_S)
        assert not await kept.nearest(bucket, OWN, (1.0, 0.0), TTL_S, WITHIN_S)
        await kept.probe(WITHIN_S)
        assert kept.reason == ""


async def test_of_redisearch_another_gateway_meets_what_one_has_added(search_url: str) -> None:
    async with connected(search_url) as redis:
        kept, bucket = await probed(redis), secrets.token_bytes(32)
        vector = tuple(float(number == 3) for number in range(7))
        assert await kept.nearest(bucket, OWN, vector, TTL_S, WITHIN_S) == []  # there is no index for this length
        assert await kept.add(bucket, b"a", vector, b"words", TTL_S, WITHIN_S)
        other = await probed(redis)
        near = await other.nearest(bucket, OWN, vector, TTL_S, WITHIN_S)
        assert near is not None and [(it.key, it.similarity, it.words) for it in near] == [(b"a", 1.0, b"words")]
        left_s = await redis.send(b"TTL", b"weir:semantic:document:7:" + bucket + b"a")
        assert isinstance(left_s, int) and 0 < left_s <= TTL_S


async def test_redisearch_that_may_not_be_given_an_index_is_said_until_it_may(search_url: str) -> None:
    name, vector = secrets.token_hex(8), (1.0,) + (0.0,) * 10
    user = (b"ACL", b"SETUSER", name, b"on", b">secret", b"~*", b"+@all")
    async with connected(search_url) as redis:
        await redis.send(*user, b"-FT.CREATE")
        async with connected(f"redis://{name}:secret@{search_url.partition('@')[2]}") as limited:
            kept = await probed(limited)
            assert not await kept.add(b"bucket", b"a", vector, b"", TTL_S, WITHIN_S)
            assert "NOPERM" in kept.unkept
            await redis.send(*user)
            await kept.probe(WITHIN_S)
            assert await kept.add(b"bucket", b"a", vector, b"", TTL_S, WITHIN_S)
            assert kept.unkept == ""
        await redis.send(b"ACL", b"DELUSER", name)


async def test_redisearch_beside_another_database_is_said(search_url: str) -> None:
    async with connected(search_url.removesuffix("0") + "1") as redis:
        kept = VectorStore(redis)
        await kept.probe(WITHIN_S)
        assert kept.reason == OTHER_DATABASE


async def test_without_a_connection_nothing_is_waited_for() -> None:
    kept = VectorStore(open_redis("redis://127.0.0.1:1/0"))
    assert kept.reason == NO_REDIS
    assert await kept.nearest(b"b", OWN, NEAR, TTL_S, WITHIN_S) is None
    assert not await kept.add(b"b", b"k", NEAR, b"", TTL_S, WITHIN_S)


async def test_a_gateway_that_starts_has_the_evidence_of_the_others(redis_url: str) -> None:
    name = secrets.token_bytes(16)
    async with connected(redis_url) as redis, connected(redis_url) as other:
        labels, started = Labels(redis), Labels(other)
        route = labels.route(name, "m", "same", 0.05)
        for number in range(250):
            labels.add(route.name, Label(0.96, number == 0), "id")
        await labels.read(WITHIN_S)
        again = started.route(name, "m", "same", 0.05)
        await started.read(WITHIN_S)
        assert again.evidence.labels == route.evidence.labels == 250
        assert again.evidence.threshold == route.evidence.threshold is not None
        assert started.route(name, "m", "same", 0.01).evidence.labels == 0  # another bound: they are read again
        await started.read(WITHIN_S)
        assert started.route(name, "m", "same", 0.01).evidence.labels == 250


async def test_a_redis_that_has_lost_its_labels_leaves_no_evidence(redis_url: str) -> None:
    async with connected(redis_url) as redis:
        labels, name = Labels(redis), secrets.token_bytes(16)
        route = labels.route(name, "m", "same", 0.05)
        for number in range(250):
            labels.add(name, Label(0.96, number == 0), "id")
        await asyncio.gather(labels.read(WITHIN_S), labels.read(WITHIN_S))
        assert route.evidence.labels == 250 and route.evidence.threshold is not None
        await redis.send(b"DEL", b"weir:semantic:labels:" + name)
        await labels.read(WITHIN_S)
        assert (route.evidence.labels, route.evidence.threshold) == (0, None)
        for _ in range(3):
            labels.add(name, Label(0.96, wrong=False), "id")
        await labels.read(WITHIN_S)
        assert route.evidence.labels == 3


async def test_that_answers_have_become_wrong_is_said_with_examples(redis_url: str) -> None:
    async with connected(redis_url) as redis:
        labels, name = Labels(redis), secrets.token_bytes(16)
        route = labels.route(name, "m", "same", 0.05)
        for number in range(400):
            labels.add(name, Label(0.96, number >= 398), f"request-{number}")
        with capture_logs() as said:
            await labels.read(WITHIN_S)
        assert (route.evidence.threshold, route.evidence.changes) == (None, 1)
        assert route.broke_lately(3600)
        assert list(route.wrong) == ["request-398", "request-399"]
        route.broke_ms -= 3_600_000
        assert not route.broke_lately(3600)
    assert [(it["event"], it["model"]) for it in said] == [("semantic_cache.became_wrong", "m")]


async def test_a_cluster_keeps_vectors_and_evidence(start: Start, tmp_path: Path) -> None:
    async with connected(start_cluster(start, tmp_path).url) as redis:
        kept, labels, name = VectorStore(redis), Labels(redis), secrets.token_bytes(16)
        await kept.probe(WITHIN_S)
        assert kept.reason == ""
        for number in range(8):  # on both nodes
            bucket = secrets.token_bytes(32)
            assert await kept.add(bucket, b"near", NEAR, b"words", TTL_S, WITHIN_S), number
            assert not await kept.add(bucket, b"near", NEAR, b"words", TTL_S, WITHIN_S)
            assert await kept.set_apart(OWN, b"another", WITHIN_S)
            assert await keys(kept, bucket) == [b"near"]
        route = labels.route(name, "m", "same", 0.05)
        labels.add(name, Label(0.96, wrong=True), "id")

        async def learnt() -> bool:
            await labels.read(WITHIN_S)
            return route.evidence.labels == 1

        await eventually_async(learnt)
