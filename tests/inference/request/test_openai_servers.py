"""Requests through the gateway to stand-ins of OpenAI-compatible servers, with the official client."""

import asyncio
from typing import Any

import openai
import pytest

from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import KEY, Gateway, Receiver, Serve, StartGateway, unique
from tests.support.gateway.sockets import send
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import ALL_KINDS, EMBEDDING, GENERATION, KINDS, MODEL, ModelServer
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


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_whole_answers_and_streams(start_server: StartServer, serve: Serve, kind: str) -> None:
    server = await start_server(kind)
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
    assert [body["model"] for body in server.bodies] == [MODEL, MODEL]
    assert KEY not in str(server.headers)


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_stream_that_fails_midway_raises_in_the_client(
    start_server: StartServer, serve: Serve, kind: str
) -> None:
    server = await start_server(kind)
    gateway = await obeyed(serve, server)
    server.fault = "fails midway"
    with pytest.raises(openai.APIError):
        async with gateway.client() as client:
            async for _ in await client.chat.completions.create(model="weir", messages=unique(), stream=True):
                pass


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_what_a_broken_server_says_stays_here(start_server: StartServer, serve: Serve, kind: str) -> None:
    server = await start_server(kind)
    gateway = await obeyed(serve, server)
    server.fault = "500"
    with pytest.raises(openai.InternalServerError) as failed:
        await ask(gateway)
    assert "Traceback" not in str(failed.value.body)
    assert "engine" not in str(failed.value.body)
    assert "TensorRT" not in str(failed.value.body)


async def test_a_full_server_is_passed_over_for_another(start_server: StartServer, serve: Serve) -> None:
    full, other = await start_server("sglang"), await start_server("dynamo")
    gateway = await obeyed(serve, full, other)
    await eventually_async(lambda: _ready(gateway, 2))
    full.fault = "busy"
    for _ in range(6):
        assert (await ask(gateway)).choices[0].message.content == "A weir."
    assert len(other.bodies) == 6


async def test_the_clients_mistake_is_a_400_with_the_servers_reason(start_server: StartServer, serve: Serve) -> None:
    server = await start_server("trtllm")
    gateway = await obeyed(serve, server)
    server.check = lambda body: "stop has too many strings"  # type: ignore[method-assign]
    with pytest.raises(openai.BadRequestError, match="stop has too many strings"):
        await ask(gateway)


@pytest.mark.parametrize("kind", sorted(ALL_KINDS))
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
            with pytest.raises(
                openai.BadRequestError, match=r"'weir' makes no embeddings.*Name a model that"
            ) as refused:
                await client.embeddings.create(model="weir", input="a")
            assert (refused.value.code, refused.value.param) == ("unsupported_operation", "model")
    bodies = sum(len(server.bodies) for server in servers)
    assert bodies == (0 if kind == "sglang" else 3), "none is tried again, and none is sent where that is known before"
    assert (await ask(gateway)).choices[0].message.content == "A weir."


@pytest.mark.parametrize("kind", sorted(set(ALL_KINDS) - {"trtllm"}))
async def test_chats_of_a_model_that_embeds_are_the_clients_mistake(
    start_server: StartServer, serve: Serve, kind: str
) -> None:
    server = await start_server(kind)
    server.operations = EMBEDDING
    gateway = await obeyed(serve, server)
    await eventually_async(lambda: _ready(gateway, 1))
    for options in ({}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match=r"'weir' takes no chats.*Name a model that generates"):
            await ask(gateway, **options)
    assert len(server.bodies) == (0 if kind == "sglang" else 2)
    async with gateway.client() as client:
        assert (await client.embeddings.create(model="weir", input="a")).data


async def test_a_client_that_leaves_stops_the_server(start_server: StartServer, serve: Serve) -> None:
    server = await start_server("sglang")
    gateway = await obeyed(serve, server)
    server.gate.clear()
    connection = await asyncio.to_thread(send, gateway, "weir", stream=True)
    await eventually_async(lambda: server.running == 1)
    connection.close()
    await eventually_async(lambda: server.aborted == 1 and not server.running)


async def test_readyz_says_what_the_replica_is(start_server: StartServer, serve: Serve) -> None:
    fits, does_not = await start_server("sglang"), await start_server("llamacpp")
    does_not.model = "another"
    gateway = await obeyed(serve, fits, does_not)

    async def reported() -> bool:
        servers = (await asyncio.to_thread(gateway.ready))["pools"]["pool"].get("servers", {})
        return servers.get("r0", {}).get("kind") == "sglang" and "another" in servers.get("r1", {}).get("reason", "")

    await eventually_async(reported)


async def _ready(gateway: Gateway, number: int) -> bool:
    pools = (await asyncio.to_thread(gateway.ready))["pools"]
    return bool(pools["pool"]["ready"] == number)


async def test_spans_name_the_pool_and_the_replica(
    start_server: StartServer, start_gateway: StartGateway, receiver: Receiver
) -> None:
    server = await start_server("sglang")
    gateway = await asyncio.to_thread(start_gateway, in_front_of(server), otlp=receiver.url)
    async with gateway.client() as client:
        raw = await client.chat.completions.with_raw_response.create(model="weir", messages=unique())
    spans = await receiver.trace(raw.headers["x-request-id"], spans=4)
    (attempt,) = [span for span in spans if span.name == "model.infer"]
    assert (attempt.attributes["weir.pool"], attempt.attributes["weir.replica"]) == ("pool", "r0")
    assert server.headers[-1]["traceparent"].split("-")[2] == attempt.span_id
