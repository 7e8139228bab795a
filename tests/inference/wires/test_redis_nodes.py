"""Redis Sentinel and Redis Cluster, as the cache and the limits use them. All are real."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from inference.contract.metering.rate_limit import limits_of
from inference.contract.snapshot import Tier
from inference.core.events import Choice, WholeAnswer
from inference.request.exact.cache import Cache, Lookup
from inference.request.limits import Limits
from inference.wires.redis import RedisClient, open_redis
from tests.support.gateway.redis_nodes import Cluster, Watched, sees_all, start_cluster, start_watched
from tests.support.start import Start
from tests.support.wait import eventually_async

LONG_S = 30.0
ANSWER = WholeAnswer((Choice("one", "stop"),), 1, 1)


def is_kept(lookup: Lookup) -> bool:
    return lookup.answer is not None and lookup.answer.choices == ANSWER.choices


async def opened(url: str) -> RedisClient:
    client = open_redis(url)
    client.start()
    await eventually_async(lambda: client.up)
    return client


@pytest.fixture
def watched(start: Start, tmp_path: Path) -> Watched:
    return start_watched(start, tmp_path)


@pytest.fixture(scope="module")
def nodes(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """All tests use it: leave it whole."""
    return start_cluster(start_once, tmp_path_factory.mktemp("cluster"))


@pytest.fixture
async def in_cluster(nodes: Cluster) -> AsyncIterator[RedisClient]:
    client = await opened(nodes.url)
    yield client
    await client.close()


def keys_of(half: int) -> list[bytes]:
    """Cache keys whose slots the first (0) or the second (1) node has."""
    keys = (secrets.token_bytes(8) for _ in range(100))
    return [key for key in keys if key_slot(b"weir:answer:" + key) // 8192 == half][:3]


async def test_after_a_failover_the_master_that_the_sentinels_name_is_written_to(watched: Watched) -> None:
    client = await opened(watched.url)
    try:
        cache, key = Cache(client), secrets.token_bytes(8)
        assert await cache.put(key, ANSWER, 60)
        await eventually_async(lambda: asyncio.to_thread(lambda: watched.replica.dbsize() == 1), "the replica has it")
        await asyncio.to_thread(watched.master.kill)
        await eventually_async(lambda: not client.up)
        assert (await cache.get(key, LONG_S)).skipped

        async def written() -> bool:
            return await cache.put(key, ANSWER, 60)

        await eventually_async(written)
        assert is_kept(await cache.get(key, LONG_S))
        role = await asyncio.to_thread(watched.replica.role)
        assert role[0] in (b"master", "master")
    finally:
        await client.close()


async def test_a_cluster_keeps_answers_and_a_node_that_dies_costs_its_own_alone(
    nodes: Cluster, in_cluster: RedisClient
) -> None:
    cache = Cache(in_cluster)
    lower, upper = keys_of(0), keys_of(1)
    for key in (*lower, *upper):
        assert await cache.put(key, ANSWER, 60)
        assert is_kept(await cache.get(key, LONG_S))
    assert (await cache.get(secrets.token_bytes(8), LONG_S)).outcome == "miss"
    await asyncio.to_thread(nodes.nodes[1].kill)
    assert (await cache.get(upper[0], LONG_S)).skipped
    for key in lower:
        assert is_kept(await cache.get(key, LONG_S))
    assert in_cluster.up
    await asyncio.to_thread(lambda: nodes.nodes[1].start().wait_ready())
    for client in nodes.clients:
        await eventually_async(lambda: asyncio.to_thread(sees_all, client))  # noqa: B023

    async def stored() -> bool:
        return await cache.put(upper[0], ANSWER, 60)

    await eventually_async(stored)


async def test_limits_are_exact_over_gateways_on_a_cluster(nodes: Cluster, in_cluster: RedisClient) -> None:
    others = [in_cluster, await opened(nodes.url)]
    try:
        gateways = [Limits(client, 60_000) for client in others]
        for _ in range(4):  # tenants on both nodes
            of = limits_of(f"t{secrets.token_hex(6)}", Tier("t", requests_per_minute=10, tokens_per_minute=10_000))
            meters = [gateways[number % 2].begin(of, "t", 5, LONG_S) for number in range(30)]
            results = await asyncio.gather(*(meter.entered() for meter in meters), return_exceptions=True)
            assert results.count(None) == 10
        assert [service.counted_locally for service in gateways] == [0, 0]
    finally:
        await others[1].close()


async def test_a_slot_that_moves_is_followed(nodes: Cluster, in_cluster: RedisClient) -> None:
    cache, (key, *_) = Cache(in_cluster), keys_of(0)
    assert await cache.put(key, ANSWER, 60)
    slot = key_slot(b"weir:answer:" + key)

    def move(number: int) -> None:
        target = nodes.clients[number].execute_command("CLUSTER MYID")
        nodes.clients[1 - number].delete(b"weir:answer:" + key)  # a node with keys of a slot does not give it away
        for client in (nodes.clients[number], nodes.clients[1 - number]):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", target)

    await asyncio.to_thread(move, 1)
    assert (await cache.get(key, LONG_S)).outcome == "miss"
    assert await cache.put(key, ANSWER, 60)
    assert is_kept(await cache.get(key, LONG_S))
    assert await asyncio.to_thread(lambda: nodes.clients[1].exists(b"weir:answer:" + key)) == 1
    await asyncio.to_thread(move, 0)
