"""The official client at a gateway in front of models with the published tensors, on a real Triton."""

import asyncio
import json
from typing import Any

import pytest
from openai import APIError, BadRequestError, InternalServerError

from deploy.local.triton import Triton
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import KEY, Gateway, Serve
from tests.support.servers.triton import requests_of, wait_for_more
from tests.support.servers.triton_calls import MAPPING, PATIENCE_S, decoded
from tests.support.wait import eventually_async

ALL = ("vllm_model", "ensemble", "tensorrt_llm_bls", "llmapi", "llmapi_decoupled", "mapped")
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}


@pytest.fixture
def fronted(serve: Serve, standins: Triton) -> Gateway:
    """A gateway with a model for each stand-in, by the stand-in's name."""
    names = (*ALL, "foreign")
    return serve(
        Snapshot(
            1,
            tuple(Model(name, (Route(name),), max_output_tokens=100) for name in names),
            tuple(
                Pool(
                    name,
                    name,
                    "local",
                    name,
                    "",
                    (Endpoint("r0", standins.grpc),),
                    signature="mapping" if name == "mapped" else "auto",
                    mapping=MAPPING if name == "mapped" else None,
                )
                for name in names
            ),
            (Tier("standard"),),
            (Tenant("alice", "standard", (key_digest(KEY),)),),
        )
    )


def say(text: str) -> list[Any]:
    return [{"role": "user", "content": f"say: {text}"}]


@pytest.mark.parametrize("name", ALL)
async def test_chats_are_answered_whole_and_streamed_alike(fronted: Gateway, name: str) -> None:
    async with fronted.client() as client:
        whole = await client.chat.completions.create(model=name, messages=say("one two three"), temperature=1)
        stream = await client.chat.completions.create(
            model=name, messages=say("one two three"), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    [choice] = whole.choices
    assert (choice.message.content, choice.finish_reason) == ("one two three", "stop")
    assert whole.usage is not None
    assert whole.usage.completion_tokens > 0 and whole.usage.prompt_tokens > 0
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one two three"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


@pytest.mark.parametrize("name", ALL)
async def test_limits_stop_words_and_choices_mean_the_same_everywhere(fronted: Gateway, name: str) -> None:
    async with fronted.client() as client:
        short = await client.chat.completions.create(model=name, messages=say("one two three"), max_tokens=2)
        stopped = await client.chat.completions.create(model=name, messages=say("one two three"), stop=["hre"])
        several = await client.chat.completions.create(model=name, messages=say("one two"), n=2)
    assert (short.choices[0].message.content, short.choices[0].finish_reason) == ("one two", "length")
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("one two t", "stop")
    assert [choice.index for choice in several.choices] == [0, 1]
    assert all((choice.message.content or "").startswith("one") for choice in several.choices)


async def test_what_a_server_cannot_do_is_refused_by_name_and_the_rest_reaches_it(fronted: Gateway) -> None:
    async with fronted.client() as client:
        for name, refused in (("ensemble", {"logprobs": True}), ("llmapi", {"response_format": SCHEMA})):
            with pytest.raises(BadRequestError) as caught:
                await client.chat.completions.create(model=name, messages=say("x"), **refused)
            assert caught.value.param == next(iter(refused))
        answer = await client.chat.completions.create(
            model="vllm_model", messages=say("!tensors"), response_format=SCHEMA, extra_body={"top_k": 3}
        )
        sampling = json.loads(decoded(answer.choices[0].message.content or "")["sampling_parameters"][2][0])
        assert (sampling["top_k"], json.loads(sampling["structured_outputs"])) == (3, {"json": {"type": "object"}})
        likely = await client.chat.completions.create(
            model="vllm_model", messages=say("one two"), logprobs=True, top_logprobs=2
        )
    assert likely.choices[0].logprobs is not None
    assert [item.token for item in likely.choices[0].logprobs.content or []] == ["one", " two"]


@pytest.mark.parametrize("name", ["vllm_model", "tensorrt_llm_bls", "llmapi_decoupled"])
async def test_failures_reach_clients_as_errors_without_their_insides(fronted: Gateway, name: str) -> None:
    async with fronted.client() as client:
        with pytest.raises(InternalServerError) as whole:
            await client.chat.completions.create(model=name, messages=say("!fail=0 one two"))
        # While nothing has been written to the client, the error has a status of its own; after that it is an event.
        with pytest.raises(APIError) as midway:
            async for _ in await client.chat.completions.create(
                model=name, messages=say("!fail=1 one two"), stream=True
            ):
                pass
    for error in (whole.value, midway.value):
        assert "Traceback" not in str(error) and ".py" not in str(error) and "N/A" not in str(error)


async def test_a_model_that_fits_no_signature_gets_no_request_and_the_page_says_why(fronted: Gateway) -> None:
    async with fronted.client() as client:
        with pytest.raises(InternalServerError) as caught:
            await client.chat.completions.create(model="foreign", messages=say("x"))
    assert caught.value.status_code == 503
    server = fronted.ready()["pools"]["foreign"]["servers"]["r0"]
    assert server["state"] == "down"
    assert "fits no signature" in server["misfit"]
    known = fronted.ready()["pools"]["vllm_model"]["servers"]["r0"]
    assert (known["kind"], known["version"], known["signature"]) == ("triton", "2.51.0", "vllm")


@pytest.mark.parametrize(
    ("streams", "wait"), [(True, "!wait=0"), (True, "!wait"), (False, "!wait")], ids=["no token", "midway", "whole"]
)
async def test_a_client_that_leaves_stops_the_model(
    fronted: Gateway, standins: Triton, *, streams: bool, wait: str
) -> None:
    begun, cancelled = (requests_of(standins, "vllm_model", what) for what in ("begun", "cancelled"))
    async with fronted.client() as client, asyncio.timeout(PATIENCE_S):
        call = client.chat.completions.create(
            model="vllm_model",
            messages=say(f"{wait} one two three"),
            stream=streams,  # type: ignore[call-overload]
        )
        asking = asyncio.ensure_future(call)
        await wait_for_more(standins, "vllm_model", "begun", begun)
        if streams and wait == "!wait":
            stream = await asking
            assert (await anext(stream)).choices
            await stream.close()
        else:
            asking.cancel()
        await wait_for_more(standins, "vllm_model", "cancelled", cancelled)
    assert requests_of(standins, "vllm_model", "begun") - begun == 1, "nothing was tried again"
    await eventually_async(lambda: asyncio.to_thread(fronted.idle))
