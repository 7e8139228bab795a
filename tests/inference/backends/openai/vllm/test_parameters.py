"""The official client gets through the gateway what it gets from vLLM itself."""

import json
from typing import Any

import jsonschema
import openai
import pytest

from tests.support.servers.vllm import CONTEXT_TOKENS, MODEL, Clients, VLlm, short_calls

pytestmark = pytest.mark.servers

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

CHATS: dict[str, dict[str, Any]] = {
    "max_tokens": {"max_tokens": 6},
    "max_completion_tokens": {"max_completion_tokens": 6},
    "no limit": {"max_tokens": openai.NOT_GIVEN, "stop": ["w1"]},
    "temperature and seed": {"temperature": 0.7, "seed": 4},
    "top_p": {"temperature": 1.0, "top_p": 0.5, "seed": 4},
    "stop": {"max_tokens": 200, "stop": [" w1", "w2"]},
    "penalties": {"presence_penalty": 1.0, "frequency_penalty": 0.5},
    "n": {"n": 3, "temperature": 1.0, "seed": 7},
    "logit_bias": {"logit_bias": {"42": 100}, "max_tokens": 3},
    "logprobs": {"logprobs": True, "top_logprobs": 2, "max_tokens": 4},
    "logprobs alone": {"logprobs": True, "max_tokens": 4},
    "tools, forced": {"tools": [TOOL], "tool_choice": BY_NAME, "max_tokens": 200},
    "tools, required": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 200},
    "tools, none": {"tools": [TOOL], "tool_choice": "none"},
    "tools, auto": {"tools": [TOOL], "parallel_tool_calls": False},
    "json_schema": {"response_format": JSON_SCHEMA, "max_tokens": 60},
    "json_object": {"response_format": {"type": "json_object"}, "max_tokens": 8},
    "text": {"response_format": {"type": "text"}},
    "reasoning_effort": {"reasoning_effort": "low"},
    "tool results": {"messages": TURNS, "tools": [TOOL]},
    "parts of text": {"messages": PARTS},
    "what has no effect": {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"},
    "what vLLM adds": {"extra_body": {"top_k": 1, "min_p": 0.1, "min_tokens": 2, "repetition_penalty": 1.1}},
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
# Of vLLM alone, or different at each answer.
_APART = {
    *("id", "created", "system_fingerprint", "service_tier", "stop_reason", "token_ids", "prompt_token_ids"),
    *("prompt_text", "prompt_logprobs", "routed_experts", "kv_transfer_params", "ec_transfer_params", "metrics"),
}


def plain(value: Any) -> Any:
    """What two equal answers have in common: without what is empty, with rounded numbers."""
    if isinstance(value, dict):
        kept = {name: plain(item) for name, item in value.items() if name not in _APART}
        return {name: item for name, item in kept.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return round(value, 2) if isinstance(value, float) else value


def joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer that the chunks make, and their shape."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            parts = choices.setdefault(choice["index"], {"deltas": set(), "calls": {}, "logprobs": []})
            delta = choice.get("delta") or {"content": choice.get("text")}
            for name, value in delta.items():
                if isinstance(value, str) and value:
                    parts["deltas"].add(name)
                    parts[name] = parts.get(name, "") + value
            for call in delta.get("tool_calls") or []:
                known = parts["calls"].setdefault(call["index"], {"name": "", "arguments": "", "ids": 0})
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"].get("arguments") or ""
                known["ids"] += bool(call.get("id"))
            if (logprobs := choice.get("logprobs")) is not None:
                parts["logprobs"] += logprobs.get("content") or logprobs["tokens"]
            if choice.get("finish_reason"):
                assert "finish_reason" not in parts, "two finish reasons"
                parts["finish_reason"] = choice["finish_reason"]
    return {
        "choices": plain(choices),
        "usage": [plain(chunk["usage"]) for chunk in chunks if chunk.get("usage")],
        "without choices": [number - len(chunks) for number, chunk in enumerate(chunks) if not chunk["choices"]],
        "objects": {chunk["object"] for chunk in chunks},
    }


def a_chat(server: VLlm, case: str) -> dict[str, Any]:
    """What a client asks for in a case."""
    asked = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 12, **CHATS[case]}
    if "max_completion_tokens" in asked:
        del asked["max_tokens"]
    if asked.get("tool_choice") in (BY_NAME, "required"):
        asked["logit_bias"] = short_calls(server.model)
    return asked


def without_ids(answer: dict[str, Any]) -> dict[str, Any]:
    for choice in answer["choices"]:
        for call in (choice.get("message") or {}).get("tool_calls") or []:
            assert call.pop("id")
            # vLLM writes the arguments of a whole answer anew, without the model's white space.
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return answer


@pytest.mark.parametrize("case", CHATS)
async def test_a_chat(clients: Clients, vllm_server: VLlm, case: str) -> None:
    asked = a_chat(vllm_server, case)
    direct = await clients.direct.chat.completions.create(**asked)
    through = await clients.through.chat.completions.create(**asked)
    assert plain(without_ids(through.model_dump())) == plain(without_ids(direct.model_dump()))


@pytest.mark.parametrize("case", CHATS)
async def test_a_stream_of_a_chat(clients: Clients, vllm_server: VLlm, case: str) -> None:
    asked = a_chat(vllm_server, case)
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    direct = [chunk.model_dump() async for chunk in await clients.direct.chat.completions.create(**asked)]
    through = [chunk.model_dump() async for chunk in await clients.through.chat.completions.create(**asked)]
    assert joined(through) == joined(direct)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", TEXTS)
async def test_a_text_completion(clients: Clients, case: str, stream: bool) -> None:
    asked = {"model": MODEL, "temperature": 0, **TEXTS[case]}
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
        direct = [chunk.model_dump() async for chunk in await clients.direct.completions.create(**asked)]
        through = [chunk.model_dump() async for chunk in await clients.through.completions.create(**asked)]
        assert joined(through) == joined(direct)
    else:
        whole = await clients.direct.completions.create(**asked)
        assert plain((await clients.through.completions.create(**asked)).model_dump()) == plain(whole.model_dump())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", MISTAKES)
async def test_a_mistake(clients: Clients, case: str, stream: bool) -> None:
    asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 4, **MISTAKES[case]}
    with pytest.raises(openai.APIStatusError) as direct:  # in a stream, vLLM says some mistakes after status 200
        await clients.direct.chat.completions.create(**asked)
    with pytest.raises(openai.APIStatusError) as through:
        await clients.through.chat.completions.create(**asked, stream=stream)
    assert (through.value.status_code, type(through.value)) == (direct.value.status_code, type(direct.value))
    body = through.value.body
    assert isinstance(body, dict)
    assert set(body) == {"message", "type", "param", "code"}
    assert body["message"]


async def test_json_by_a_schema_is_valid(clients: Clients) -> None:
    answer = await clients.through.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        response_format=JSON_SCHEMA,
        max_tokens=100,
        temperature=0,  # type: ignore[arg-type]
    )
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SCHEMA)


async def test_a_forced_tool_call_is_valid(clients: Clients, vllm_server: VLlm) -> None:
    answer = await clients.through.chat.completions.create(**a_chat(vllm_server, "tools, forced"))
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


async def test_an_unknown_model(clients: Clients) -> None:
    for client in (clients.direct, clients.through):
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="nobody", messages=MESSAGES)  # type: ignore[arg-type]
