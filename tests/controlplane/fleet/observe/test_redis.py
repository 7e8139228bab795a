import aiohttp
from redis.asyncio import Redis

from controlplane.fleet.observe import probes
from controlplane.fleet.observe.core import redis_info


def test_a_redis_that_loads_its_data_is_degraded() -> None:
    assert redis_info.reading({"loading": 1}).state == "degraded"


def test_a_redis_that_is_full_and_may_evict_nothing_is_degraded() -> None:
    full = {"used_memory": 1100, "maxmemory": 1000, "maxmemory_policy": "noeviction"}
    assert "it takes no writes" in redis_info.reading(full).error
    for other in ({"maxmemory_policy": "volatile-lru"}, {"used_memory": 900}, {"maxmemory": 0}):
        assert redis_info.reading({**full, **other}).state == "up"


def test_figures_that_a_server_does_not_tell_are_left_out() -> None:
    seen = redis_info.reading({"connected_clients": 3, "used_memory": "?"})
    assert (dict(seen.figures), dict(seen.counters)) == ({"clients": 3}, {})


async def test_a_real_redis_is_up_and_counts_hits_and_misses(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as client, aiohttp.ClientSession() as session:
        before = await probes.redis(redis_url)(session)
        await client.set("weir-test:observed", "1", ex=60)
        await client.get("weir-test:observed")
        await client.get("weir-test:absent")
        after = await probes.redis(redis_url)(session)
    assert after.state == "up"
    assert after.counters["hits"] >= before.counters["hits"] + 1
    assert after.counters["misses"] >= before.counters["misses"] + 1
    assert after.figures["memory_bytes"] > 0


async def test_observing_a_redis_causes_no_errors_in_it(redis_url: str) -> None:
    async with aiohttp.ClientSession() as session:
        before = await probes.redis(redis_url)(session)
        after = await probes.redis(redis_url)(session)
    assert after.counters["errors"] == before.counters["errors"]
