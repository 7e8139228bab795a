"""Answers of which their server says no number of tokens: what they took is not known, and not nothing."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import msgspec
import openai
import pytest

from inference.contract.snapshot import (
    CacheRule,
    Endpoint,
    Model,
    Pool,
    Price,
    Route,
    Snapshot,
    StageTimeouts,
    Tenant,
    Tier,
    key_digest,
)
from tests.support.gateway.process import KEY, Receiver, Serve, unique, with_fresh_tenants
from tests.support.servers.saying import Verbatim
from tests.support.wait import eventually_async

LIMIT = 100_000
PRICE = Price(usd_per_1k_prompt_tokens=1.0, usd_per_1k_output_tokens=2.0)


@pytest.fixture
async def verbatim() -> AsyncIterator[Verbatim]:
    async with Verbatim().serving() as server:
        server.content_type = "application/json"
        yield server


@pytest.fixture
def name() -> str:
    """Of the model: the gateway has not seen yet how much it answers."""
    return f"uncounted-{secrets.token_hex(4)}"


def priced(name: str, url: str) -> Snapshot:
    given = Snapshot(
        1,
        (Model(name, (Route("p"),), cache=CacheRule("never")),),
        (Pool("p", "v", "r", "m", "", (Endpoint("r0", url=url),), protocol="openai", prices=(PRICE,)),),
        (Tier("standard", tokens_per_minute=LIMIT),),
        (Tenant("alice", "standard", (key_digest(KEY),)),),
    )
    return with_fresh_tenants(given)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [('"usage":{"prompt_tokens":5,"completion_tokens":7}', True), ('"usage":null', False), ('"usage":{}', False)],
)
async def test_what_an_answer_took_that_nobody_counted_is_not_known(
    serve: Serve, receiver: Receiver, verbatim: Verbatim, name: str, usage: str, counted: bool
) -> None:
    verbatim.parts = [
        b'{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"Hi"}}],%s}' % usage.encode()
    ]
    gateway = await asyncio.to_thread(serve, priced(name, verbatim.url))
    left = list[int]()
    async with gateway.client() as client:
        for _ in range(2):
            raw = await client.chat.completions.with_raw_response.create(model=name, messages=unique(), max_tokens=500)
            left.append(int(raw.headers["x-ratelimit-remaining-tokens"]))
    spans = await receiver.trace(raw.headers["x-request-id"], spans=2)
    [root] = [span for span in spans if "weir.request" in span.attributes]
    assert root.attributes["weir.status"] == "ok"
    said = [root.attributes.get(key) for key in ("gen_ai.usage.output_tokens", "weir.cost_usd")]
    assert said == ([7, 0.019] if counted else [None, None])
    output = gateway.metric("weir_gateway_tokens_total", direction="output", model=name)
    assert output == (14 if counted else 0)
    before, after = left
    assert (before - after < 100) == counted, "else what was expected stays taken"


@pytest.mark.parametrize("way", ["disconnect", "timeout"])
async def test_what_a_server_has_made_of_an_answer_that_nobody_got_is_not_known(
    serve: Serve, receiver: Receiver, verbatim: Verbatim, name: str, way: str
) -> None:
    """Without a stream nothing of it comes before its end."""
    timeouts = StageTimeouts(model_ms=1_000 if way == "timeout" else 60_000)
    snapshot = msgspec.structs.replace(priced(name, verbatim.url), timeouts=timeouts)
    gateway = await asyncio.to_thread(serve, snapshot)
    async with gateway.client() as client:
        create = client.chat.completions.with_raw_response.create
        verbatim.begins.clear()
        request = asyncio.ensure_future(create(model=name, messages=unique(), max_tokens=500))
        await eventually_async(lambda: verbatim.calls == 1)
        if way == "disconnect":
            request.cancel()
        else:
            with pytest.raises(openai.InternalServerError):
                await request
        await eventually_async(lambda: asyncio.to_thread(gateway.idle))
        verbatim.begins.set()
        verbatim.parts = [b'{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}']
        raw = await create(model=name, messages=unique(), max_tokens=1)
    assert LIMIT - int(raw.headers["x-ratelimit-remaining-tokens"]) > 100, "what was expected stays taken"
    await receiver.trace(raw.headers["x-request-id"], spans=2)
    status = "cancelled" if way == "disconnect" else "error"
    roots = [span for span in receiver.spans if span.name == f"chat {name}"]
    [root] = [span for span in roots if span.attributes.get("weir.status") == status]
    assert "gen_ai.usage.output_tokens" not in root.attributes
