"""What a client may send, and what the model server then gets."""

from pathlib import Path
from typing import Any, get_type_hints

import openai
import pytest
from openai.types import EmbeddingCreateParams, completion_create_params
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from inference.contract.snapshot import Endpoint, Pool, UnknownParameters
from inference.core.capabilities import Capabilities
from inference.core.events import Event
from inference.core.question import PARAMETERS, Question
from inference.request.parse import ENDPOINTS
from tests.support.gateway.scripted import SERVER, USAGE, ScriptedBackend, Servers, a_snapshot, serve, serve_pools

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
TEXT = (Event("yes", finish_reason="stop", usage=USAGE),)

PASSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"top_p": 0.5, "presence_penalty": 1, "frequency_penalty": -1},
        {"top_p": 0.5, "presence_penalty": 1, "frequency_penalty": -1},
    ),
    ({"stop": "x"}, {"stop": ("x",)}),
    ({"stop": ["x", "y"], "n": 1}, {"stop": ("x", "y"), "n": 1}),
    ({"logit_bias": {"7": 1, "3": 2}}, {"logit_bias": {"3": 2, "7": 1}}),
    ({"logprobs": True, "top_logprobs": 2}, {"logprobs": 1, "top_logprobs": 2}),
    ({"tools": TOOLS, "tool_choice": "required"}, {"tools": tuple(TOOLS), "tool_choice": "required"}),
    ({"tools": TOOLS, "parallel_tool_calls": False}, {"tool_choice": "", "parallel_tool_calls": False}),
    ({"tools": [], "tool_choice": "auto"}, {"tools": (), "tool_choice": ""}),
    ({"response_format": SCHEMA}, {"response_format": SCHEMA}),
    ({"response_format": {"type": "text"}}, {"response_format": None}),
    ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    ({"max_completion_tokens": 3}, {"max_tokens": 3}),
    ({"extra_body": {"top_k": 4, "min_p": 0.1, "ignore_eos": True}}, {"top_k": 4, "min_p": 0.1, "ignore_eos": True}),
    ({"extra_body": {"guided_choice": ["a", "b"]}}, {"structured_outputs": {"choice": ["a", "b"]}}),
    ({"extra_body": {"chat_template_kwargs": {"x": 1}}}, {"chat_template_kwargs": {"x": 1}}),
]


@pytest.mark.parametrize(("options", "wanted"), PASSED)
async def test_the_server_gets_what_the_client_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wanted: dict[str, Any]
) -> None:
    script = ScriptedBackend(TEXT)
    async with serve(script, tmp_path, monkeypatch) as client:
        await client.chat.completions.create(model="m", messages=HELLO, **options)
    assert {name: getattr(script.questions[0], name) for name in wanted} == wanted


async def test_earlier_turns_reach_the_server_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedBackend(TEXT)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm", "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    async with serve(script, tmp_path, monkeypatch) as client:
        await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    user, assistant, tool = script.questions[0].messages
    assert [(part.type, part.text) for part in user.content or () if not isinstance(part, str)] == [
        ("text", "look"),
        ("image_url", None),
    ]
    assert (assistant.tool_calls[0].id, assistant.tool_calls[0].function.name, assistant.reasoning) == ("c1", "f", "hm")
    assert (tool.tool_call_id, tool.content) == ("c1", "42")


@pytest.mark.parametrize(
    ("prompt", "wanted", "choices"),
    [("a", ("a",), 1), ([1, 2], ((1, 2),), 1), (["a", "b"], ("a", "b"), 2), ([[1], [2, 3]], ((1,), (2, 3)), 2)],
)
async def test_prompts_may_be_texts_or_token_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: Any, wanted: Any, choices: int
) -> None:
    events = [Event("x", index, "stop") for index in range(choices)]
    script = ScriptedBackend((*events, Event(usage=USAGE, tokens=0)))
    async with serve(script, tmp_path, monkeypatch) as client:
        answer = await client.completions.create(model="m", prompt=prompt, echo=True, logprobs=1, suffix="end")
    assert script.questions[0].prompt == wanted
    assert (script.questions[0].echo, script.questions[0].logprobs, script.questions[0].suffix) == (True, 1, "end")
    assert [choice.text for choice in answer.choices] == ["x"] * choices


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"n": 129}, "n"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"extra_body": {"chat_template": "{{ x }}"}}, "chat_template"),
    ({"messages": [{"role": "user", "content": "x", "thoughts": 1}]}, "messages[0].thoughts"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
        "messages[0].content[0]",
    ),
]


async def test_what_has_no_effect_is_named_in_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptedBackend(TEXT)
    script.capabilities = Capabilities(
        SERVER, {**dict.fromkeys(PARAMETERS, "forwarded"), "parallel_tool_calls": "dropped", "logit_bias": "refused"}
    )
    async with serve(script, tmp_path, monkeypatch) as client:
        create = client.chat.completions.with_raw_response.create
        plain = await create(model="m", messages=HELLO, store=False, verbosity="medium")
        some = await create(
            model="m", messages=HELLO, store=True, verbosity="low", tools=TOOLS, parallel_tool_calls=True
        )
        with pytest.raises(openai.BadRequestError) as caught:
            await create(model="m", messages=HELLO, logit_bias={"1": 1})
    assert "x-weir-dropped" not in plain.headers
    assert some.headers["x-weir-dropped"] == "store, verbosity, parallel_tool_calls"
    assert script.questions[1].parallel_tool_calls is None
    assert (caught.value.param, caught.value.code) == ("logit_bias", "unsupported_parameter")
    assert SERVER in caught.value.message


async def test_a_compressed_body_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(ScriptedBackend(TEXT), tmp_path, monkeypatch) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model="m", messages=HELLO, extra_headers={"content-encoding": "gzip"})
    assert (caught.value.status_code, caught.value.code) == (415, "unsupported_encoding")


@pytest.mark.parametrize("rule", ["pass", "drop", "refuse"])
async def test_a_triton_is_sent_no_parameter_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: UnknownParameters
) -> None:
    """It has no tensor for it."""
    script = ScriptedBackend(TEXT)
    replica = Endpoint("r0", url="http://127.0.0.1:1/v1")
    pool = Pool("p", "v", "r", "m", "", (replica,), protocol="openai", unknown_parameters=rule)
    async with serve_pools(lambda *_, **__: Servers(p=script), a_snapshot(pool), tmp_path, monkeypatch) as client:
        create = client.chat.completions.with_raw_response.create
        asked = create(model="m", messages=HELLO, store=True, extra_body={"cache_salt": "x", "top_k": 4})
        if rule == "drop":
            assert (await asked).headers["x-weir-dropped"] == "cache_salt, store"
            assert script.questions[0].top_k == 4
        else:
            with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'cache_salt'"):
                await asked


OFFICIAL: dict[str, Any] = {
    "/v1/chat/completions": CompletionCreateParamsStreaming,
    "/v1/completions": completion_create_params.CompletionCreateParamsStreaming,
    "/v1/embeddings": EmbeddingCreateParams,
    "/v1/responses": ResponseCreateParamsStreaming,
}


@pytest.mark.parametrize("path", OFFICIAL)
def test_every_parameter_of_the_official_client_is_known(path: str) -> None:
    endpoint = ENDPOINTS[path]
    assert get_type_hints(OFFICIAL[path]).keys() <= endpoint.decodes | endpoint.official


def test_every_parameter_of_a_question_can_be_refused() -> None:
    fields = set(Question.__struct_fields__) - {"operation", "messages", "prompt", "input"}
    assert fields < set(PARAMETERS)
