"""The official client works unchanged."""

import asyncio
import json
from typing import Any

import openai
import pytest

from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import SMALL, Gateway, Serve, unique, with_model


async def test_it_answers_a_chat(gateway: Gateway) -> None:
    answer = await gateway.client().chat.completions.create(model=SMALL, messages=unique(), max_tokens=8)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_it_streams_a_chat_with_usage(gateway: Gateway) -> None:
    stream = await gateway.client().chat.completions.create(
        model=SMALL, messages=unique(), max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    *texts, last, usage = chunks
    assert texts[0].choices[0].delta.role == "assistant"
    assert all(chunk.usage is None for chunk in (*texts, last))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in texts)
    assert last.choices[0].delta.model_dump(exclude_none=True) == {}
    assert last.choices[0].finish_reason in ("stop", "length")
    assert usage.choices == []
    assert usage.usage is not None
    assert usage.usage.completion_tokens == len(texts) - 1
    assert len({chunk.id for chunk in chunks}) == 1


async def test_it_completes_a_text_and_streams_one(gateway: Gateway) -> None:
    create = gateway.client().completions.create
    prompt = unique()[0]["content"]
    whole = await create(model=SMALL, prompt=prompt, max_tokens=8, temperature=0)
    stream = await create(model=SMALL, prompt=prompt, max_tokens=8, temperature=0, stream=True)
    assert whole.object == "text_completion"
    assert "".join([chunk.choices[0].text async for chunk in stream]) == whole.choices[0].text


async def test_it_answers_the_responses_api(gateway: Gateway) -> None:
    create = gateway.client().responses.create
    text = unique()[0]["content"]
    whole = await create(model=SMALL, input=text, max_output_tokens=8, temperature=0)
    events = [
        event async for event in await create(model=SMALL, input=text, max_output_tokens=8, temperature=0, stream=True)
    ]
    assert whole.output_text
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert events[-1].response.output_text == whole.output_text
    assert whole.usage is not None
    assert whole.usage.output_tokens <= 8


async def test_a_model_that_generates_text_refuses_embeddings(gateway: Gateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await gateway.client().embeddings.create(model=SMALL, input="hello")
    assert caught.value.param == "model"


async def test_it_lists_models(gateway: Gateway) -> None:
    models = [model.id async for model in gateway.client().models.list()]
    assert models == ["chat-small", "chat-large"]
    assert (await gateway.client().models.retrieve(SMALL)).id == SMALL
    with pytest.raises(openai.NotFoundError):
        await gateway.client().models.retrieve("nobody")


async def test_a_wrong_key_is_refused(gateway: Gateway) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        await gateway.client(key="not-a-key").chat.completions.create(model=SMALL, messages=unique())
    assert caught.value.code == "invalid_api_key"


async def test_an_unknown_model_is_not_found(gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await gateway.client().chat.completions.create(model="nobody", messages=unique())
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_an_oversized_prompt_names_the_limit(serve: Serve, snapshot: Snapshot) -> None:
    gateway = await asyncio.to_thread(serve, with_model(snapshot, SMALL, max_prompt_tokens=50))
    for text in ("word " * 100, "w" * 500_000, "." + " " * 1_000_000 + "."):
        with pytest.raises(openai.BadRequestError) as caught:
            await gateway.client().chat.completions.create(model=SMALL, messages=unique(text))
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


async def test_an_image_is_refused_by_a_model_that_takes_none(gateway: Gateway) -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    with pytest.raises(openai.BadRequestError, match="`messages` with an image is not supported"):
        await gateway.client().chat.completions.create(model=SMALL, messages=[{"role": "user", "content": parts}])
    asked: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
    with pytest.raises(openai.BadRequestError, match="`input` with an image is not supported") as caught:
        await gateway.client().responses.create(model=SMALL, input=asked)
    assert caught.value.param == "input"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"model": "\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_not_a_request_is_a_400(gateway: Gateway, body: bytes) -> None:
    status, _, text = gateway.ask("POST", "/v1/chat/completions", body)
    assert status == 400
    assert json.loads(text)["error"]["type"] == "invalid_request_error"


async def test_every_answer_says_its_request_id(gateway: Gateway) -> None:
    answer = await gateway.client().chat.completions.with_raw_response.create(
        model=SMALL, messages=unique(), max_tokens=2
    )
    assert len(answer.headers["x-request-id"]) == 32
    with pytest.raises(openai.NotFoundError) as caught:
        await gateway.client().chat.completions.create(model="nobody", messages=unique())
    assert caught.value.request_id


def test_unknown_urls_and_methods_have_the_same_shape(gateway: Gateway) -> None:
    for method, path, wanted in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/healthz", 405),
    ):
        status, _, text = gateway.ask(method, path, None)
        assert (status, set(json.loads(text)["error"])) == (wanted, {"message", "type", "param", "code"})


def test_nothing_but_health_answers_without_a_key(gateway: Gateway) -> None:
    assert gateway.get("/healthz", key="")[0] == 200
    assert gateway.get("/readyz", key="")[0] == 200
    for path in ("/v1/models", "/v1/models/chat-small", "/v1/nothing"):
        assert gateway.get(path, key="")[0] == 401, path
    assert gateway.ask("POST", "/v1/chat/completions", b"{}", key="")[0] == 401
