"""Bodies of /v1/responses as chats."""

import json
from typing import Any

import pytest

from inference.core.openai.errors import ApiError
from inference.core.openai.responses_schema import Read, read
from inference.core.openai.schema import Function

CALL = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": None}
LOGPROBS = "message.output_text.logprobs"


def reads(given: Any = "x", **fields: Any) -> Read:
    return read(json.dumps({"model": "m", "input": given, **fields}).encode())


def thinks(*texts: str) -> dict[str, Any]:
    return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text} for text in texts]}


def says(content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ("x", [("user", "x", 0, None)]),
        (
            [thinks("a", "b"), says("x", "assistant"), says("y", "assistant"), {"type": "reasoning", "content": "c"}, CALL],
            [("assistant", "x", 0, "ab"), ("assistant", "y", 1, None)],
        ),
        (
            [thinks("a"), says("x"), CALL, CALL, {"type": "function_call_output", "call_id": "1", "output": ""}, CALL],
            [("user", "x", 0, None), ("assistant", None, 2, "a"), ("tool", "", 0, None), ("assistant", None, 1, None)],
        ),
        ([{"type": "reasoning"}, says("x")], [("user", "x", 0, None)]),
    ],
)  # fmt: skip
def test_items_become_messages(given: Any, messages: list[tuple[Any, ...]]) -> None:
    chat = reads(given).chat
    calls = [call for it in chat.messages for call in it.tool_calls or ()]
    assert all((call.id, call.function) == ("1", Function("f", "{}")) for call in calls)
    assert [(it.role, it.content, len(it.tool_calls or ()), it.reasoning) for it in chat.messages] == messages


def test_parts_become_those_of_chats() -> None:
    texts = [{"type": kind, "text": kind} for kind in ("input_text", "output_text", "text")]
    url = "https://example.com/a.png"
    images = [{"type": "input_image", "image_url": url, "detail": detail} for detail in ("low", "high", "auto")]
    content = reads([says([*texts, {"type": "refusal", "refusal": "no"}, *images])]).chat.messages[0].content
    assert content is not None and not isinstance(content, str)
    assert [part.text for part in content[:4]] == ["input_text", "output_text", "text", "no"]
    assert [(part.image_url.url, part.image_url.detail) for part in content[4:] if part.image_url] == [
        (url, "low"),
        (url, "high"),
        (url, None),
    ]


def test_parameters_become_those_of_chats() -> None:
    form = {"type": "json_schema", "name": "s", "schema": {}}
    chat = reads(
        tools=[TOOL], tool_choice={"type": "function", "name": "f"}, text={"format": form}, include=[LOGPROBS], top_logprobs=2
    ).chat  # fmt: skip
    function = {"name": "f", "description": "d", "parameters": {}}
    assert chat.tools == [{"type": "function", "function": function}]
    assert chat.tool_choice == {"type": "function", "function": {"name": "f"}}
    assert chat.response_format == {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
    assert (chat.logprobs, chat.top_logprobs) == (True, 2)
    chat = reads(top_logprobs=2, text={"format": {"type": "json_object"}}, tool_choice="none").chat
    assert (chat.logprobs, chat.top_logprobs, chat.tool_choice) == (None, None, "none")
    assert chat.response_format == {"type": "json_object"}
    assert reads(text={}).chat.response_format is None
    assert len(reads([says("x")] * 2048).chat.messages) == 2048


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"previous_response_id": "", "background": False, "context_management": [], "truncation": "disabled"}, []),
        (
            {"text": {"verbosity": "medium"}, "reasoning": {"effort": "low"}, "include": [LOGPROBS], "top_logprobs": 1},
            [],
        ),
        ({"text": {"verbosity": "low"}}, ["text.verbosity"]),
        ({"reasoning": {"summary": "auto"}}, ["reasoning.summary"]),
        ({"reasoning": {"generate_summary": "auto"}}, ["reasoning.summary"]),
        ({"top_logprobs": 1}, ["top_logprobs"]),
        ({"include": ["a" * 70, "\u00e4", "\n"]}, [f"include[{'a' * 60}]"]),
        ({"store": True, "user": "u"}, ["user", "store"]),
    ],
)
def test_what_has_no_effect_is_named(fields: dict[str, Any], names: list[str]) -> None:
    assert reads(**fields).dropped == names


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {}}, "prompt"),
        ({"max_tool_calls": 1}, "max_tool_calls"),
        ({"context_management": [{}]}, "context_management"),
        ({"truncation": "auto"}, "truncation"),
        ({"given": []}, "input"),
        ({"given": [says("x")] * 2049}, "input"),
        ({"given": [{"role": "user"}]}, "input[0]"),
        ({"given": [{"content": "x"}]}, "input[0]"),
        ({"given": [{"type": "x"}]}, "input[0].type"),
        *(({"given": [CALL | {name: None}]}, "input[0]") for name in ("call_id", "name", "arguments")),
        ({"given": [{"type": "function_call_output", "call_id": "1"}]}, "input[0]"),
        ({"given": [{"type": "function_call_output", "output": "x"}]}, "input[0]"),
        ({"given": [says([{"type": "input_text"}])]}, "input[0].content[0]"),
        ({"given": [says([{"type": "refusal"}])]}, "input[0].content[0]"),
        ({"given": [says([{"type": "input_image"}])]}, "input[0].content[0]"),
        ({"given": [says([{"type": "input_image", "image_url": "x"}])]}, "input[0].content[0].image_url"),
        (
            {
                "given": [
                    {
                        "type": "function_call_output",
                        "call_id": "1",
                        "output": [{"type": "input_image", "image_url": "https://example.com/"}],
                    }
                ]
            },
            "input[0].output[0]",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [TOOL], "tool_choice": {"type": "custom", "name": "f"}}, "tool_choice.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "s"}}}, "text.format"),
    ],
)
def test_what_is_refused_is_named_as_the_client_sent_it(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        reads(**fields)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert "max_completion_tokens" not in refused.value.message and "json_schema" not in refused.value.message
