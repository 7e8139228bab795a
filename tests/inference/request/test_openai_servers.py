"""Requests through the gateway to stand-ins of OpenAI-compatible servers, with the official client."""

import asyncio
from typing import Any
from urllib.parse import unquote

import openai
import pytest
from aiohttp import web

from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from inference.core.passing.request import MAX_UNKNOWN
from tests.support.gateway.process import KEY, Gateway, Receiver, Serve, unique
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import EMBEDDING, GENERATION, MODEL, ModelServer
from tests.support.wait import eventually_async


def in_front_of(*servers: ModelServer, **pool: Any) -> Snapshot:
    """One model on these servers, without a cache."""
    endpoints = tuple(Endpoint(f"r{number}", url=server.url) for number, server in enumerate(servers))
    return Snapshot(
        1,
        (Model("weir", (Route("pool"),), cache=CacheRule("never")),),
        (Pool("pool", "variant", "local", MODEL, "", endpoints, protocol="openai", **pool),),
        (Tier("standard"),),
        (Tenant("alice", "standard", (key_digest(KEY),)),),
    )


async def obeyed(serve: Serve, *servers: ModelServer, **pool: Any) -> Gateway:
    """The gateway in front of these servers. The loop of this test answers its probes meanwhile."""
    return await asyncio.to_thread(serve, in_front_of(*servers, **pool))


async def ask(gateway: Gateway, **parameters: Any) -> Any:
    async with gateway.client() as client:
        return await client.chat.completions.create(model="weir", messages=unique(), **parameters)


async def test_whole_answers_and_streams(start_server: StartServer, serve: Serve) -> None:
    server = await start_server("sglang")
    gateway = await obeyed(serve, server)
    whole = await ask(gateway, max_tokens=5)
    assert (whole.model, whole.choices[0].message.content) == ("weir", "A weir.")
    assert (whole.choices[0].finish_reason, whole.usage.prompt_tokens, whole.usage.completion_tokens) == ("stop", 7, 3)
    async with gateway.client() as client:
        stream = await client.chat.completions.create(
            model="weir", messages=unique(), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "A weir."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10
    async with gateway.client() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="weir", messages=unique(), stream=True, extra_body={"stream": "true"}
        )
        assert [chunk async for chunk in raw.parse()]  # type: ignore[attr-defined]
    assert "content-length" not in raw.headers, "servers in Python take a text for true"
    assert [body["model"] for body in server.bodies] == [MODEL, MODEL, MODEL]
    assert KEY not in str(server.headers)


async def test_only_a_stream_says_when_its_first_token_was_there(
    start_server: StartServer, serve: Serve, receiver: Receiver
) -> None:
    server = await start_server("sglang")
    gateway = await obeyed(serve, server)
    await eventually_async(lambda: _ready(gateway, 1))
    for streams, events in ((False, []), (True, ["first_token"])):
        async with gateway.client() as client:
            raw = await client.chat.completions.with_raw_response.create(
                model="weir", messages=unique(), stream=streams, max_tokens=5
            )
            if streams:
                assert [chunk async for chunk in raw.parse()]  # type: ignore[attr-defined]
        spans = await receiver.trace(raw.headers["x-request-id"], spans=2)
        (attempt,) = [span for span in spans if span.name == "model.infer"]
        assert [event.name for event in attempt.raw.events] == events


async def test_the_ledger_has_the_status_that_the_client_got(
    start_server: StartServer, serve: Serve, receiver: Receiver
) -> None:
    server = await start_server("sglang")
    gateway = await obeyed(serve, server)
    await eventually_async(lambda: _ready(gateway, 1))
    server.fault = "500"
    with pytest.raises(openai.InternalServerError) as failed:
        await ask(gateway)
    spans = await receiver.trace(failed.value.response.headers["x-request-id"], spans=2)
    [root] = [span for span in spans if "weir.request" in span.attributes]
    assert (failed.value.status_code, root.attributes["http.response.status_code"]) == (500, 500)
    assert (root.attributes["weir.status"], root.attributes["error.type"]) == ("error", "model_error")
    server.fault, server.status = "", 206
    async with gateway.client() as client:
        for stream in (False, True):
            raw = await client.chat.completions.with_raw_response.create(model="weir", messages=unique(), stream=stream)
            assert not stream or [chunk async for chunk in raw.parse()]  # type: ignore[attr-defined]
            spans = await receiver.trace(raw.headers["x-request-id"], spans=2)
            [root] = [span for span in spans if "weir.request" in span.attributes]
            assert (raw.status_code, root.attributes["http.response.status_code"]) == (206, 206)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
async def test_models_are_listed_with_what_their_server_says_of_them(
    start_server: StartServer, serve: Serve, kind: str
) -> None:
    servers = [await start_server(kind) for _ in range(2)]
    gateway = await obeyed(serve, *servers)
    await eventually_async(lambda: _ready(gateway, 2))
    asked = [len(server.probed) for server in servers]
    async with gateway.client() as client:
        [listed] = [model async for model in client.models.list()]
        assert listed == await client.models.retrieve("weir")
    assert (listed.id, listed.owned_by, listed.created) == ("weir", "weir", 1)
    assert (listed.model_extra or {}) == servers[0].listed
    lists = [server.probed[before:].count("/v1/models") for server, before in zip(servers, asked, strict=True)]
    assert lists == [0, 0], "no server is asked for it"
    servers_said = (await asyncio.to_thread(gateway.ready))["pools"]["pool"]["servers"]
    assert all("card" not in said for said in servers_said.values())


SAID = "This server does not support embeddings. Start it with `--embeddings`"  # as llama.cpp says it


@pytest.mark.parametrize("kind", ["llamacpp", "sglang"])
async def test_embeddings_of_a_model_that_generates_are_the_clients_mistake(
    start_server: StartServer, serve: Serve, kind: str
) -> None:
    servers = [await start_server(kind) for _ in range(2)]
    for server in servers:
        server.operations = GENERATION
    gateway = await obeyed(serve, *servers)
    await eventually_async(lambda: _ready(gateway, 2))
    async with gateway.client() as client:
        for _ in range(3):
            with pytest.raises(openai.APIStatusError) as refused:
                await client.embeddings.create(model="weir", input="a")
            if kind == "sglang":
                assert (refused.value.code, refused.value.param) == ("unsupported_operation", "model")
            else:
                assert (refused.value.status_code, refused.value.body["message"]) == (501, SAID)  # type: ignore[index]
    bodies = sum(len(server.bodies) for server in servers)
    assert bodies == (0 if kind == "sglang" else 3), "none is tried again, and none is sent where that is known before"
    assert (await ask(gateway)).choices[0].message.content == "A weir."


@pytest.mark.parametrize("kind", ["llamacpp", "sglang"])
async def test_chats_of_a_model_that_embeds_are_the_clients_mistake(
    start_server: StartServer, serve: Serve, kind: str
) -> None:
    server = await start_server(kind)
    server.operations = EMBEDDING
    gateway = await obeyed(serve, server)
    await eventually_async(lambda: _ready(gateway, 1))
    for options in ({}, {"stream": True}):
        with pytest.raises(openai.APIStatusError, match=r"'weir' takes no chats|does not support completions"):
            await ask(gateway, **options)
    assert len(server.bodies) == (0 if kind == "sglang" else 2)
    async with gateway.client() as client:
        assert (await client.embeddings.create(model="weir", input="a")).data


UNKNOWN = {"top_k": 4, "max_token": 5, "a,b\r\nc: \u00e9": [1]}


@pytest.mark.parametrize(
    ("kind", "dropped"),
    [("vllm", [*UNKNOWN]), ("trtllm", [*UNKNOWN][1:]), ("llamacpp", [*UNKNOWN][1:])],
)
async def test_parameters_that_a_server_does_not_list_are_dropped_and_named_or_refused(
    start_server: StartServer, serve: Serve, kind: str, dropped: list[str]
) -> None:
    """llama.cpp lists none, so OpenAI's count, and what the gateway knows beside them."""
    server = await start_server(kind)
    gateway = await obeyed(serve, server, unknown_parameters="drop")
    await eventually_async(lambda: _ready(gateway, 1))
    async with gateway.client() as client:
        create = client.chat.completions.with_raw_response.create
        some = await create(model="weir", messages=unique(), temperature=0, extra_body=UNKNOWN)
        none = await create(model="weir", messages=unique(), temperature=0, seed=5)
        with pytest.raises(openai.BadRequestError, match=f"{MAX_UNKNOWN + 1} parameters"):
            await create(model="weir", messages=unique(), extra_body={f"x{n}": 1 for n in range(MAX_UNKNOWN + 1)})
    assert [unquote(name) for name in some.headers["x-weir-dropped"].split(", ")] == dropped
    assert "x-weir-dropped" not in none.headers
    assert set(server.bodies[0]) - {"priority"} == {"model", "messages", "temperature", *UNKNOWN} - set(dropped)
    await asyncio.to_thread(gateway.obey, in_front_of(server, unknown_parameters="refuse"))
    await eventually_async(lambda: _ready(gateway, 1))
    for name in dropped:
        with pytest.raises(openai.BadRequestError) as refused:
            await ask(gateway, extra_body={name: 1})
        assert (refused.value.code, refused.value.param) == ("unknown_parameter", name)
    await ask(gateway, extra_body={name: 1 for name in UNKNOWN if name not in dropped})
    assert len(server.bodies) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_without_a_name_and_a_wait_reach_the_client(
    start_server: StartServer, serve: Serve, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start_server("dynamo")
    gateway = await obeyed(serve, server)
    for status in (520, 529):
        server.fault = str(status)
        with pytest.raises(openai.APIStatusError) as refused:
            await ask(gateway, stream=stream)
        assert refused.value.status_code == status
    full = web.json_response({}, status=429, headers={"Retry-After": "120"})
    monkeypatch.setattr(server, "error", lambda *_: full)
    with pytest.raises(openai.RateLimitError) as refused:
        await ask(gateway, stream=stream)
    waits = [refused.value.response.headers.get(name) for name in ("retry-after", "retry-after-ms", "x-should-retry")]
    assert waits == ["120", None, "true"], "nothing beside what the server says of the same"


@pytest.mark.parametrize("status", [301, 304, 307])
async def test_a_redirect_is_refused_with_its_remedy(start_server: StartServer, serve: Serve, status: int) -> None:
    server = await start_server("dynamo")
    gateway = await obeyed(serve, server)
    server.fault = str(status)
    with pytest.raises(openai.APIStatusError, match=f"answers {status}: redirects are not followed") as refused:
        await ask(gateway)
    assert (refused.value.status_code, refused.value.code) == (502, "model_error")


async def _ready(gateway: Gateway, number: int) -> bool:
    pools = (await asyncio.to_thread(gateway.ready))["pools"]
    return bool(pools["pool"]["ready"] == number)
