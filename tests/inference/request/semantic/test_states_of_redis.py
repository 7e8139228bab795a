"""Redis full, killed, replaced by one without vector sets, and back: no request fails or is wrong, `/readyz` and the screen say it."""

import asyncio
from itertools import count, product
from pathlib import Path

import pytest
from redis.asyncio import Redis as Client

from deploy.local.process import Managed
from deploy.local.redis import Redis
from tests.support.gateway.redis_nodes import start_watched, without_vector_sets
from tests.support.gateway.similar import NAMES, Bed, bed
from tests.support.start import Start
from tests.support.wait import eventually_async

FULL = "up: its Redis takes nothing new: OOM command not allowed when used memory > 'maxmemory'."
NO_ROOM = "it keeps no new answers: Redis takes no writes, /readyz says why"
DOWN = "down", "off: its Redis is not connected", "it serves without its cache: Redis does not answer it"
NOT_LOOKED_UP = "similar requests are not looked up: /readyz says why"


async def test_each_state_of_redis_fails_no_request_and_is_said_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    redis, process = own_redis
    monkeypatch.setattr("inference.request.exact.copies.LIVES_S", 0.0)  # so that only Redis answers
    numbers = count()

    async def served(it: Bed) -> list[str]:
        """Outcomes of a text of before, of a similar one and of a new one. Each has its own answer."""
        number, outcomes = next(numbers), list[str]()
        for name, text in (
            (0, "What is the capital of {}?"),
            (0, "hello, what is {}'s capital"),
            (number, "where is {}"),
        ):
            outcome, answer = await it.ask(text.format(NAMES[name].title()))
            assert answer == f"{NAMES[name].upper()}-CITY"
            outcomes.append(outcome.partition(";")[0])
        return outcomes

    async with bed(tmp_path, monkeypatch, redis.url) as it:
        await it.says("up", "up")
        await it.teach(45)
        assert it.thresholds[0] is not None
        async with Client.from_url(redis.url) as client:
            await client.config_set("maxmemory-policy", "noeviction")
            await client.config_set("maxmemory", 1)
            assert (await served(it))[0] == "hit"
            await it.says(FULL, "up: nothing new is learnt: its Redis takes nothing new", NO_ROOM)
            await client.config_set("maxmemory", 0)
            await it.says("up", "up")  # without a request
        await asyncio.to_thread(process.kill)
        assert await served(it) == ["skipped"] * 3
        await it.says(*DOWN, NOT_LOOKED_UP)
        other = await asyncio.to_thread(start, without_vector_sets(redis))
        await it.says(
            "up",
            "off: its Redis has neither vector sets nor RediSearch: use Redis 8, or one with either module",
            NOT_LOOKED_UP,
        )
        assert await served(it) == ["miss"] * 3
        assert (await served(it))[0] == "hit"
        await asyncio.to_thread(other.kill)
        await asyncio.to_thread(start, redis.command)
        await it.says("up", "up")
        assert await served(it) == ["miss"] * 3
        assert set(it.thresholds) == {None}  # the evidence went with the Redis that had it
        assert (await served(it))[0] == "hit"


async def test_after_a_failover_no_request_has_failed_and_similar_ones_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    watched = await asyncio.to_thread(start_watched, start, tmp_path / "redis")
    async with bed(tmp_path, monkeypatch, watched.url) as it:
        await it.teach(45)
        assert it.thresholds[0] is not None
        async with Client.from_url(watched.sentinel_url) as sentinel:
            await sentinel.execute_command("SENTINEL SET", "main", "down-after-milliseconds", 600_000)
            await asyncio.to_thread(watched.master.kill)
            await it.says(*DOWN, NOT_LOOKED_UP)
            await sentinel.execute_command("SENTINEL SET", "main", "down-after-milliseconds", 500)
        texts = product(("hi", "hello", "hey"), ("", ", thanks"), NAMES[:40])

        async def served() -> bool:
            greeting, ending, name = next(texts)
            outcome, text = await it.ask(f"{greeting} please tell me what is {name.title()}'s capital{ending}?")
            assert text == f"{name.upper()}-CITY"
            return outcome.startswith("semantic")

        await eventually_async(served)
        await it.says("up", "up")
