"""The official client at a gateway in front of models with the published tensors, on a real Triton."""

import json
from typing import Any

import pytest
from openai import BadRequestError, InternalServerError

from deploy.local.triton import Triton
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, WarmUp, key_digest
from tests.support.gateway.process import KEY, Gateway, Serve
from tests.support.servers.triton_calls import EMBEDDING, MAPPING, decoded

ALL = ("vllm_model", "ensemble", "tensorrt_llm_bls", "llmapi", "llmapi_decoupled", "mapped")
MAPPINGS = {"mapped": MAPPING, "embedder": EMBEDDING}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}


@pytest.fixture
def fronted(serve: Serve, standins: Triton) -> Gateway:
    """A gateway with a model for each stand-in, by the stand-in's name."""
    names = (*ALL, "embedder", "foreign")
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
                    signature="mapping" if name in MAPPINGS else "auto",
                    mapping=MAPPINGS.get(name),
                    warm_up=WarmUp(1) if name == "embedder" else WarmUp(),
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


async def test_a_model_that_embeds_gets_each_text_as_it_is(fronted: Gateway) -> None:
    texts = [" a\r\n", "é", *(f"{number}" * (1 + number % 7) for number in range(200))]
    vectors = [[float(len(raw)), float(sum(raw)), 0.5] for raw in (text.encode() for text in texts)]
    async with fronted.client() as client:
        answer = await client.embeddings.create(model="embedder", input=texts)
        assert [item.embedding for item in answer.data] == vectors
        assert answer.usage.prompt_tokens > 0
        with pytest.raises(BadRequestError, match=r"`input` as token ids is not supported .*: send a text"):
            await client.embeddings.create(model="embedder", input=[[1, 2]])
        with pytest.raises(BadRequestError, match="dimensions"):
            await client.embeddings.create(model="embedder", input="a", dimensions=2)
        with pytest.raises(BadRequestError, match="takes no chats"):
            await client.chat.completions.create(model="embedder", messages=say("x"))
        with pytest.raises(BadRequestError, match="makes no embeddings"):
            await client.embeddings.create(model="mapped", input="a")
        with pytest.raises(InternalServerError) as failed:
            await client.embeddings.create(model="embedder", input=["a", "!fail", "b"])
    assert failed.value.status_code == 502
    assert fronted.metric("weir_gateway_warm_up_requests_total", pool="embedder", outcome="answered") == 1
