"""Which questions are answered from the cache, and that failures of Redis fail no request."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from redis import Redis as RedisClient

from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import CacheRule, Endpoint, Pool, RouteRule, Snapshot
from tests.support.gateway.cached import Bed, stored, up
from tests.support.gateway.process import KEY, OTHER_KEY, SMALL, Gateway, Serve, StartGateway, unique, with_model
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.servers.calls import StartServer
from tests.support.servers.saying import Verbatim
from tests.support.servers.standins import MODEL
from tests.support.wait import eventually_async


async def ask(gateway: Gateway, key: str = KEY, **options: Any) -> tuple[str, str]:
    """The cache's outcome and the text."""
    options = {"model": SMALL, "max_tokens": 6, "temperature": 0, **options}
    raw = await gateway.client(key).chat.completions.with_raw_response.create(**options)
    if options.get("stream"):
        parts = [chunk.choices[0].delta.content or "" async for chunk in raw.parse()]
        return raw.headers["x-weir-cache"], "".join(parts)
    return raw.headers["x-weir-cache"], raw.parse().choices[0].message.content


async def test_the_same_deterministic_question_of_a_tenant_is_a_hit(gateway: Gateway) -> None:
    messages = unique()
    first, text = await ask(gateway, messages=messages)
    again, same = await ask(gateway, messages=messages)
    streamed, streamed_text = await ask(gateway, messages=messages, stream=True)
    assert (first, again, streamed) == ("miss", "hit", "hit")
    assert text == same == streamed_text
    assert (await ask(gateway, OTHER_KEY, messages=messages))[0] == "miss", "another tenant does not see it"
    assert [(await ask(gateway, messages=messages, temperature=1))[0] for _ in range(2)] == ["bypass", "bypass"]
    create = gateway.client().chat.completions.create
    options: dict[str, Any] = {"model": SMALL, "messages": unique(), "max_tokens": 6, "seed": 3}
    assert (await create(**options)).usage == (await create(**options)).usage
    assert "rivers" not in gateway.log.read_text(), "neither prompt nor answer"


async def test_what_does_not_say_that_it_ended_is_not_kept(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    server = await start_server("vllm")
    pool = Pool("p", "v", "r", MODEL, "", (Endpoint("r0", url=server.url),), protocol="openai")
    async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch, redis_url=redis_url) as client:
        cut, bed = Bed(client), Bed(client)
        await eventually_async(lambda: up(client))
        server.finish_reason = ""
        assert (await cut.ask())[0] == "miss"
        server.finish_reason = "stop"
        await bed.ask()
        await stored(bed, "A weir.")
        assert (await cut.ask())[0] == "miss"


async def test_a_stream_that_is_cut_behind_its_end_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    """Its client has all text, but neither counts nor [DONE]."""

    async def fail() -> None:
        raise ConnectionResetError

    end = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    rest = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    async with Verbatim().serving() as server:
        pool = Pool("p", "v", "r", "m", "", (Endpoint("r0", url=server.url),), protocol="openai")
        async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch, redis_url=redis_url) as client:
            await eventually_async(lambda: up(client))

            async def asked(messages: list[Any]) -> tuple[str, bytes]:
                options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0}
                raw = await client.chat.completions.with_raw_response.create(model="m", messages=messages, **options)
                return raw.headers["x-weir-cache"], await raw.http_response.aread()

            async def kept() -> bool:
                return (await asked(after))[0] == "hit"

            cut, after = unique(), unique()
            server.parts = [end, fail]
            assert await asked(cut) == ("miss", end)
            server.parts = [end, rest]
            await eventually_async(kept)
            assert await asked(cut) == ("miss", end + rest)
            assert await asked(after) == ("hit", end + rest)


@pytest.mark.parametrize("fault", ["no JSON", "other JSON"])
async def test_what_is_no_answer_is_handed_on_and_not_kept(
    fault: str, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    server = await start_server("vllm")
    pool = Pool("p", "v", "r", MODEL, "", (Endpoint("r0", url=server.url),), protocol="openai")
    async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch, redis_url=redis_url) as client:
        await eventually_async(lambda: up(client))

        async def ask(text: str) -> tuple[str, str]:
            raw = await client.embeddings.with_raw_response.create(model="m", input=text, encoding_format="float")
            return raw.headers["x-weir-cache"], raw.http_response.text

        async def kept() -> bool:
            return (await ask(after))[0] == "hit"

        asked, after = secrets.token_hex(8), secrets.token_hex(8)
        server.fault = fault
        outcome, text = await ask(asked)
        assert (outcome, "embedding" in text) == ("miss", False)
        server.fault = ""
        await eventually_async(kept)
        outcome, text = await ask(asked)
        assert (outcome, "embedding" in text) == ("miss", True)


async def test_the_rule_widens_and_forbids(serve_cached: Serve, snapshot: Snapshot) -> None:
    gateway = await asyncio.to_thread(serve_cached, with_model(snapshot, SMALL, cache=CacheRule("always", scope="all")))
    messages = unique()
    await ask(gateway, messages=messages, temperature=1)
    assert (await ask(gateway, OTHER_KEY, messages=messages, temperature=1))[0] == "hit"
    never = with_model(snapshot, SMALL, cache=CacheRule("never"))
    gateway.obey(with_model(never, SMALL))
    assert (await ask(gateway, messages=messages))[0] == "bypass"


async def test_what_redis_took_is_counted_by_model_and_rule(
    serve_cached: Serve, snapshot: Snapshot, redis_url: str
) -> None:
    gateway = await asyncio.to_thread(serve_cached, replace(snapshot, rules=(RouteRule("p/r", SMALL),)))
    written = "weir_gateway_cache_written_bytes_total"
    before = gateway.metric(written)
    create = gateway.client().chat.completions.with_raw_response.create
    options: dict[str, Any] = {"model": SMALL, "messages": unique(), "max_tokens": 6, "temperature": 0}
    await create(**options)
    key = bytes.fromhex((await create(**options)).headers["x-weir-cache-key"])
    with RedisClient.from_url(redis_url) as redis:
        size = redis.strlen(b"weir:answer:" + key)
    assert isinstance(size, int)
    assert size > 0
    assert gateway.metric(written, model=SMALL, rule="p/r") == gateway.metric(written) - before == size


async def test_what_was_purged_is_met_by_nobody(serve_cached: Serve, snapshot: Snapshot) -> None:
    gateway = await asyncio.to_thread(serve_cached, snapshot)
    messages = unique()

    async def outcomes(**headers: str) -> list[str]:
        return [(await ask(gateway, key, messages=messages, extra_headers=headers))[0] for key in (KEY, OTHER_KEY)]

    tagged = {"x-weir-cache-tags": "docs, faq"}
    assert [await outcomes(), await outcomes()] == [["miss", "miss"], ["hit", "hit"]]
    assert [await outcomes(**tagged), await outcomes(**tagged)] == [["miss", "miss"], ["hit", "hit"]]
    tenants = tuple(replace(it, cache_purges=int(it == snapshot.tenants[0])) for it in snapshot.tenants)
    once = with_model(replace(snapshot, tenants=tenants), SMALL)
    gateway.obey(once)
    assert await outcomes() == ["miss", "hit"], "only the first tenant's were purged"
    gateway.obey(with_model(once, SMALL, cache=CacheRule(purges=1)))  # a version of its own, which is waited for
    assert [await outcomes(), await outcomes()] == [["miss", "miss"], ["hit", "hit"]]
    await outcomes(**tagged)
    gateway.obey(with_model(replace(once, version=10, tag_purges={"faq": 1}), SMALL, cache=CacheRule(purges=1)))
    assert await outcomes() == ["hit", "hit"], "only what was tagged was purged"
    assert [await outcomes(**tagged), await outcomes(**tagged)] == [["miss", "miss"], ["hit", "hit"]]
    rule = CacheRule(purges=1, version_purges=1)
    gateway.obey(with_model(replace(once, version=20), SMALL, cache=rule))
    assert await outcomes() == ["miss", "miss"]


async def test_an_answer_is_reused_only_while_what_it_rests_on_is_the_same(gateway: Gateway) -> None:
    messages = unique()
    outcomes = [
        (await ask(gateway, messages=messages, extra_headers={"x-weir-grounds": grounds} if grounds else {}))[0]
        for grounds in (
            "manual@7; doc=12@3",
            "doc=12@3; manual@7",
            "manual@8; doc=12@3",
            "manual@7",
            "",
            "manual@7; doc=12@3",
        )
    ]
    assert outcomes == ["miss", "hit", "miss", "miss", "miss", "hit"]


async def test_one_answer_is_purged_by_its_key_each_time(serve_cached: Serve, snapshot: Snapshot) -> None:
    gateway = await asyncio.to_thread(serve_cached, snapshot)
    purged, other, purges = unique(), unique(), dict[str, int]()
    for version in range(20, 23):
        for messages in (purged, other):
            await ask(gateway, messages=messages)
        create = gateway.client(KEY).chat.completions.with_raw_response.create
        raw = await create(model=SMALL, messages=purged, max_tokens=6, temperature=0)
        purges[raw.headers["x-weir-cache-key"]] = 1
        gateway.obey(with_model(replace(snapshot, version=version, tag_purges=dict(purges)), SMALL))
        assert [(await ask(gateway, messages=it))[0] for it in (purged, other)] == ["miss", "hit"]
    first = next(iter(purges))
    gateway.obey(with_model(replace(snapshot, version=30, tag_purges={first: 2}), SMALL))
    assert (await ask(gateway, messages=purged))[0] == "miss"
    assert (await ask(gateway, messages=purged))[0] == "hit"


async def test_a_wrong_password_is_a_cache_that_is_down(
    start_gateway: StartGateway, snapshot: Snapshot, redis_url: str
) -> None:
    gateway = start_gateway(snapshot, redis_url="redis://:wrong@" + redis_url.rpartition("@")[2])
    assert (await ask(gateway, messages=unique()))[0] == "skipped"
    assert "wrong" not in gateway.log.read_text()
