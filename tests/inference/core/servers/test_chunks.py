import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.events import Event, ToolCallDelta, Usage
from inference.core.servers import chunks


def events_of(**choice: Any) -> list[Event]:
    return chunks.events(chunks.decode(json.dumps({"choices": [choice]}).encode()))


def test_a_token() -> None:
    assert events_of(index=1, delta={"content": "a"}, logprobs=None, finish_reason=None) == [Event("a", 1)]
    assert events_of(text="a") == [Event("a")]


def test_a_delta_that_carries_nothing_is_no_event() -> None:
    assert events_of(delta={"role": "assistant", "content": ""}) == []
    assert events_of(delta={"content": None, "tool_calls": []}, finish_reason="") == []


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_has_either_name(name: str) -> None:
    assert events_of(delta={name: "hm", "content": None}) == [Event(reasoning="hm")]


def test_reasoning_under_both_names_comes_once() -> None:
    assert events_of(delta={"reasoning": "hm", "reasoning_content": "hm"}) == [Event(reasoning="hm")]


def test_tool_calls_may_lack_what_openai_sends() -> None:
    calls = [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"arguments": None}}]
    (event,) = events_of(message={"content": None, "tool_calls": calls}, finish_reason="tool_calls")
    assert event.tool_calls == (ToolCallDelta(0, "a", "f", '{"x":1}'), ToolCallDelta(1))


def test_logprobs_are_passed_on_as_they_are() -> None:
    (event,) = events_of(delta={"content": ""}, logprobs={"content": [{"token": "a"}]})
    assert (event.logprobs, event.tokens) == (b'{"content": [{"token": "a"}]}', 0)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2}, Usage(1, 2)),
        (
            {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
            Usage(1, 2, 0),
        ),
        ({"prompt_tokens": 1, "completion_tokens": 2, "reasoning_tokens": 3}, Usage(1, 2, -1, 3)),
        (
            {"prompt_tokens": 1, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(1, 2, -1, 2),
        ),
        ({"prompt_tokens": 1, "prompt_tokens_details": None}, Usage(1, 0)),
        (None, None),
    ],
)
def test_usage(theirs: Any, ours: Usage | None) -> None:
    assert chunks.usage(chunks.decode(json.dumps({"choices": [], "usage": theirs}).encode())) == ours


def test_an_error_is_not_an_empty_chunk() -> None:
    assert chunks.has_error(chunks.decode(b'{"error":{"message":"m"}}'))
    assert not chunks.has_error(chunks.decode(b'{"error":null,"choices":[]}'))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "delta", "message", "text", "content", "index", "tool_calls", "function", "usage"]),
        inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_whatever_a_server_sends_is_events_or_no_chunk(document: Any) -> None:
    try:
        chunk = chunks.decode(json.dumps(document).encode())
    except msgspec.DecodeError:
        return
    assert all(isinstance(event, Event) for event in chunks.events(chunk))
    chunks.usage(chunk)
