"""The shapes of answers, as the official client reads them: choices, tool calls, reasoning, logprobs and usage."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from inference.core.backend_errors import InvalidError
from inference.core.events import Event, ToolCallDelta, Usage
from tests.support.gateway.scripted import USAGE, ScriptedBackend, serve

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
TEXT = (Event("Hel"), Event("lo"), Event(finish_reason="stop", usage=USAGE, tokens=0))
CALLS = (
    Event(reasoning="so "),
    Event(reasoning="then"),
    Event(tool_calls=(ToolCallDelta(0, "call-1", "weather", ""),)),
    Event(tool_calls=(ToolCallDelta(0, arguments='{"city"'),)),
    Event(tool_calls=(ToolCallDelta(0, arguments=': "Ulm"}'), ToolCallDelta(1, "call-2", "weather", "{}"))),
    Event(finish_reason="tool_calls", tokens=0),
    Event(usage=USAGE, tokens=0),
)


def logprobs(token: str) -> bytes:
    return json.dumps({"content": [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}]}).encode()


CHOICES = (
    Event("a", 1, logprobs=logprobs("a")),
    Event("b", 0, logprobs=logprobs("b")),
    Event("c", 0, logprobs=logprobs("c")),
    Event(choice=1, finish_reason="length", tokens=0),
    Event(choice=0, finish_reason="stop", tokens=0),
    Event(usage=Usage(4, 3), tokens=0),
)


async def streamed(client: AsyncOpenAI, **options: Any) -> list[Any]:
    stream = await client.chat.completions.create(**{"model": "m", "messages": HELLO, "stream": True} | options)
    return [chunk async for chunk in stream]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_whole_answer_has_tool_calls_reasoning_and_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, stored: bool
) -> None:
    script = ScriptedBackend(CALLS)
    async with serve(script, tmp_path, monkeypatch, redis_url=redis_url if stored else "") as client:
        options: dict[str, Any] = {"model": "m", "messages": HELLO, "tools": TOOLS, "temperature": 0}
        for _ in range(2 if stored else 1):
            answer = await client.chat.completions.create(**options)
            choice = answer.choices[0]
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content is None
            assert choice.message.to_dict()["reasoning_content"] == "so then"
            assert [
                (call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()
            ] == [  # type: ignore[union-attr]
                ("call-1", "weather", '{"city": "Ulm"}'),
                ("call-2", "weather", "{}"),
            ]
            assert answer.usage is not None
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 7)
            assert answer.usage.prompt_tokens_details is not None
            assert answer.usage.prompt_tokens_details.cached_tokens == 3
            assert answer.usage.completion_tokens_details is not None
            assert answer.usage.completion_tokens_details.reasoning_tokens == 2


async def test_a_stream_has_the_parts_of_tool_calls_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ScriptedBackend(CALLS), tmp_path, monkeypatch, reasoning_field="reasoning") as client:
        chunks = await streamed(client, tools=TOOLS, stream_options={"include_usage": True})
    *rest, last, usage = chunks
    assert rest[0].choices[0].delta.role == "assistant"
    deltas = [chunk.choices[0].delta for chunk in rest[1:]]
    assert [delta.to_dict().get("reasoning") for delta in deltas] == ["so ", "then", None, None, None]
    calls = [
        (call.index, call.id, call.function.name, call.function.arguments)
        for d in deltas
        for call in d.tool_calls or ()
    ]
    assert calls == [
        (0, "call-1", "weather", ""),
        (0, None, None, '{"city"'),
        (0, None, None, ': "Ulm"}'),
        (1, "call-2", "weather", "{}"),
    ]
    assert last.choices[0].finish_reason == "tool_calls"
    assert usage.choices == []
    assert usage.usage.completion_tokens == 7


async def test_choices_are_kept_apart_and_their_logprobs_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ScriptedBackend(CHOICES), tmp_path, monkeypatch) as client:
        whole = await client.chat.completions.create(model="m", messages=HELLO, n=2, logprobs=True)
        chunks = await streamed(client, n=2, logprobs=True)
    assert [(c.index, c.message.content, c.finish_reason) for c in whole.choices] == [
        (0, "bc", "stop"),
        (1, "a", "length"),
    ]
    first = whole.choices[0].logprobs
    assert first is not None
    assert [token.token for token in first.content or ()] == ["b", "c"]
    texts, tokens, reasons = ["", ""], ["", ""], ["", ""]
    for choice in (chunk.choices[0] for chunk in chunks):
        texts[choice.index] += choice.delta.content or ""
        tokens[choice.index] += "".join(token.token for token in choice.logprobs.content) if choice.logprobs else ""
        reasons[choice.index] += choice.finish_reason or ""
    assert texts == tokens == ["bc", "a"]
    assert reasons == ["stop", "length"]


async def test_a_stored_stream_gives_what_the_first_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    script = ScriptedBackend(CHOICES)
    async with serve(script, tmp_path, monkeypatch, redis_url=redis_url) as client:
        options: dict[str, Any] = {"n": 2, "seed": 1, "stream_options": {"include_usage": True}}
        answers = []
        while len(script.questions) == len(answers):  # until one comes from the cache
            chunks = await streamed(client, **options)
            texts = ["", ""]
            for choice in (choice for chunk in chunks for choice in chunk.choices):
                texts[choice.index] += choice.delta.content or ""
            answers.append((texts, chunks[-1].usage))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][0] == ["bc", "a"]


async def test_every_chunk_has_the_counts_so_far_where_the_client_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ScriptedBackend(TEXT), tmp_path, monkeypatch) as client:
        options = {"include_usage": True, "continuous_usage_stats": True}
        chunks = await streamed(client, extra_body={"stream_options": options})
    assert [chunk.usage.completion_tokens for chunk in chunks] == [0, 1, 2, 2, 7]


async def test_what_the_server_calls_wrong_reaches_the_client_as_its_own_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(
        ScriptedBackend((InvalidError("bad schema", 400, "response_format"),)), tmp_path, monkeypatch
    ) as client:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(model="m", messages=HELLO, stream=stream)  # type: ignore[call-overload]
            assert (caught.value.param, caught.value.code) == ("response_format", "invalid_value")
