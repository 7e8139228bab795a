"""The official clients get through the gateway what they get from vLLM itself: status, every field, and errors."""

from typing import Any

import openai
import pytest

from tests.support.servers.vllm import CONTEXT_TOKENS, MODEL, Clients, VLlm, short_calls
from tests.support.transparent.alike import Ends, both
from tests.support.transparent.queries import PARAMETERS, Query

pytestmark = pytest.mark.servers

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "What is a weir?"}]
SCHEMA = {
    "type": "object",
    "properties": {"dry": {"type": "boolean"}, "depth": {"enum": [1, 2]}},
    "required": ["dry", "depth"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "Weather", "parameters": SCHEMA, "strict": True},
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "weir", "schema": SCHEMA, "strict": True}}
BY_NAME = {"type": "function", "function": {"name": "weather"}}
TURNS = [
    *MESSAGES,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"dry":true}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"sky":"clear"}'},
]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": " a weir?"}]}]
ODD = [
    {"role": "system", "content": "  <html>\r\n\t<s>struck</s>  "},
    {"role": "user", "content": "[INST] <think> <|x|> <|im_start|>system\r", "thinking_blocks": [{"type": "thinking"}]},
]

CHATS: dict[str, dict[str, Any]] = {
    "max_completion_tokens": {"max_completion_tokens": 6},
    "no limit": {"stop": ["w1"]},
    "temperature and seed": {"max_tokens": 12, "temperature": 0.7, "seed": 4},
    "top_p": {"max_tokens": 12, "temperature": 1.0, "top_p": 0.5, "seed": 4},
    "stop": {"max_tokens": 200, "stop": [" w1", "w2"]},
    "n": {"max_tokens": 12, "n": 3, "temperature": 1.0, "seed": 7},
    "logprobs": {"max_tokens": 4, "logprobs": True, "top_logprobs": 2},
    "logprobs alone": {"max_tokens": 4, "logprobs": True},
    "tools, forced": {"max_tokens": 200, "tools": [TOOL], "tool_choice": BY_NAME},
    "tools, required": {"max_tokens": 200, "tools": [TOOL], "tool_choice": "required"},
    "tools, none": {"max_tokens": 12, "tools": [TOOL], "tool_choice": "none"},
    "tools, auto": {"max_tokens": 12, "tools": [TOOL], "parallel_tool_calls": False},
    "json_schema": {"max_tokens": 60, "response_format": JSON_SCHEMA},
    "tool results": {"max_tokens": 12, "messages": TURNS, "tools": [TOOL]},
    "parts of text": {"max_tokens": 12, "messages": PARTS},
    "odd texts": {"max_tokens": 12, "messages": ODD},
    "an answer that goes on": {
        "max_tokens": 12,
        "messages": [*MESSAGES, {"role": "assistant", "content": "A weir \n"}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "what vLLM adds": {"max_tokens": 12, "top_k": 1, "min_p": 0.1, "min_tokens": 2, "repetition_penalty": 1.1},
}
TEXTS: dict[str, dict[str, Any]] = {
    "text": {"prompt": "A weir", "max_tokens": 5},
    "token ids": {"prompt": [40, 41, 42], "max_tokens": 5},
    "batch": {"prompt": ["A weir", "A river"], "max_tokens": 3},
    "echo and logprobs": {"prompt": "A weir", "echo": True, "logprobs": 2, "max_tokens": 3},
    "n": {"prompt": "A weir", "n": 2, "temperature": 1.0, "seed": 3, "max_tokens": 3},
    "no limit": {"prompt": "A weir"},
}
MISTAKES: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": -1},
    "top_p": {"top_p": 3},
    "n": {"n": 0},
    "max_tokens": {"max_tokens": 0},
    "max_tokens over the context": {"max_tokens": CONTEXT_TOKENS * 2},
    "top_logprobs": {"logprobs": True, "top_logprobs": 99},
    "seed": {"seed": "x"},
    "a prompt over the context": {"messages": [{"role": "user", "content": "river " * CONTEXT_TOKENS}]},
    "no messages": {"messages": []},
    "a schema that is none": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": 1}}},
    "a tool that is none": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
}
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "stream": {"stream": True},
    "counted": {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
}


def query(path: str, fields: dict[str, Any], way: str = "whole") -> Query:
    asked: dict[str, Any] = {"model": MODEL, "temperature": 0, **fields, **WAYS[way]}
    streams = bool(asked.pop("stream", False))
    return Query("openai", path, asked, streams=streams)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CHATS)
async def test_a_chat(ends: Ends, vllm_server: VLlm, case: str, way: str) -> None:
    asked: dict[str, Any] = {"messages": MESSAGES, **CHATS[case]}
    if asked.get("tool_choice") in (BY_NAME, "required"):
        asked["logit_bias"] = short_calls(vllm_server.model)
    direct, through = await both(ends, query(CHAT, asked, way))
    assert direct.well
    assert through == direct


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", TEXTS)
async def test_a_text_completion(ends: Ends, case: str, way: str) -> None:
    direct, through = await both(ends, query(TEXT, TEXTS[case], way))
    assert direct.well
    assert through == direct


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", MISTAKES)
async def test_a_mistake(ends: Ends, case: str, way: str) -> None:
    direct, through = await both(ends, query(CHAT, {"messages": MESSAGES, "max_tokens": 4, **MISTAKES[case]}, way))
    assert not direct.well
    assert through == direct


@pytest.mark.parametrize(("name", "values"), PARAMETERS, ids=[name for name, _ in PARAMETERS])
async def test_a_parameter(ends: Ends, name: str, values: tuple[Any, ...]) -> None:
    """Whatever vLLM makes of it."""
    for value in values:
        for path, prompt in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "A weir"})):
            for way in ("whole", "stream"):
                asked = query(path, {**prompt, "seed": 5, "max_tokens": 6, name: value}, way)
                direct, through = await both(ends, asked)
                assert through == direct, asked


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("given", ["A weir", [{"role": "user", "content": "  <s>\r\n"}]], ids=["text", "messages"])
async def test_a_response(ends: Ends, given: Any, streams: bool) -> None:
    asked = {"model": MODEL, "input": given, "instructions": "<s>", "temperature": 0, "max_output_tokens": 8}
    direct, through = await both(ends, Query("openai", "/v1/responses", asked, streams=streams))
    assert direct.status == 200
    assert through == direct


@pytest.mark.parametrize("streams", [False, True])
async def test_a_message_of_anthropics_client(ends: Ends, streams: bool) -> None:
    asked = {"model": MODEL, "messages": MESSAGES, "system": "  <s>\r\n", "temperature": 0, "max_tokens": 8}
    direct, through = await both(ends, Query("anthropic", "/v1/messages", asked, streams=streams))
    assert direct.well
    assert through == direct


async def test_a_route_that_it_has_not(ends: Ends) -> None:
    """It makes no embeddings."""
    direct, through = await both(ends, Query("openai", "/v1/embeddings", {"model": MODEL, "input": "a"}))
    assert direct.status == 404
    assert through == direct


async def test_an_unknown_model(clients: Clients) -> None:
    for client in (clients.direct, clients.through):
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="nobody", messages=MESSAGES)  # type: ignore[arg-type]
