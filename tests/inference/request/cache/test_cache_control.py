"""What `Cache-Control` of a request does, with the official client, on a real Redis."""

import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import openai
import pytest
from redis.asyncio import Redis as Client

from inference.contract.snapshot import CacheRule
from inference.core.events import Event
from tests.support.gateway.cached import Bed, stored, up
from tests.support.gateway.scripted import DONE, ScriptedBackend, serve
from tests.support.wait import eventually_async


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> AsyncIterator[Bed]:
    server = ScriptedBackend(*((Event(str(number)), DONE) for number in range(10)))
    async with serve(
        server, tmp_path, monkeypatch, redis_url=redis_url, cache=CacheRule(), prompt_version=secrets.token_hex(4)
    ) as client:
        it = Bed(client)
        await eventually_async(lambda: up(client))
        yield it


async def test_no_cache_wants_a_new_answer_which_others_meet_again(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.time()
    monkeypatch.setattr("inference.request.exact.cache.time", lambda: now_s)
    monkeypatch.setattr("inference.request.answer.time", SimpleNamespace(time=lambda: now_s))
    assert (await bed.ask())[:2] == ("miss", "0")
    await stored(bed, "0")
    assert (await bed.ask("no-cache"))[:2] == ("bypass", "1")
    await stored(bed, "1")
    assert await bed.ask() == ("hit", "1", "0")


async def test_an_answer_that_is_too_old_is_none(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    await bed.ask()
    await stored(bed, "0")
    monkeypatch.setattr("inference.request.exact.cache.time", lambda: time.time() + 61)
    assert (await bed.ask("max-age=120"))[:2] == ("hit", "0")
    assert (await bed.ask("max-age=60"))[:2] == ("miss", "1")


async def test_no_store_keeps_nothing_and_meets_what_is_kept(bed: Bed) -> None:
    assert (await bed.ask("no-store"))[:2] == ("miss", "0")
    assert (await bed.ask())[:2] == ("miss", "1")
    await stored(bed, "1")
    assert (await bed.ask("no-store"))[:2] == ("hit", "1")


async def test_only_if_cached_has_no_model_answer(bed: Bed) -> None:
    with pytest.raises(openai.APIStatusError, match="only-if-cached") as refused:
        await bed.ask("only-if-cached")
    assert (refused.value.status_code, refused.value.code) == (504, "not_cached")
    assert refused.value.response.headers["x-should-retry"] == "false"


async def test_a_request_says_for_how_long(bed: Bed, redis_url: str) -> None:
    async with Client.from_url(redis_url) as redis:
        before = {key async for key in redis.scan_iter("weir:answer:*")}
        await bed.ask(x_weir_cache_ttl="100")
        await stored(bed, "0")
        (key,) = {key async for key in redis.scan_iter("weir:answer:*")} - before
        assert 0 < await redis.ttl(key) <= 100
