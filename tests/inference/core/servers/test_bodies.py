import json
from typing import Any

import pytest

from inference.core.question import PARAMETERS, Message, Question, ToolCall
from inference.core.question import Function as Called
from inference.core.servers import bodies
from inference.core.servers.dialects import DIALECTS, LLAMACPP, OTHER, SGLANG, TRTLLM, VLLM, Dialect


def body_of(
    question: Question, dialect: Dialect = VLLM, *, max_tokens: int | None = None, priority: int | None = None
) -> dict[str, Any]:
    raw = bodies.generation(question, "llm", dialect, max_tokens=max_tokens, priority=priority, stream=True)
    body: dict[str, Any] = json.loads(raw)
    return body


def chat(**parameters: Any) -> Question:
    return Question(operation="chat", messages=(Message("user", "hi"),), **parameters)


def test_what_the_client_left_out_is_left_out() -> None:
    assert body_of(chat()) == {
        "model": "llm",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_the_client_sent_is_passed_on() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}
    sent: dict[str, Any] = {
        "temperature": 0.0, "top_p": 0.5, "seed": 0, "n": 2, "presence_penalty": 0.0, "top_logprobs": 2, "top_k": 5,
        "response_format": {"type": "json_object"}, "reasoning_effort": "low", "parallel_tool_calls": False,
    }  # fmt: skip
    body = body_of(chat(**sent, stop=("a",), tools=(tool,), logprobs=1), max_tokens=9, priority=1)
    assert {name: body[name] for name in sent} == sent
    assert (body["stop"], body["tools"], body["logprobs"]) == (["a"], [tool], True)
    assert (body["max_tokens"], body["priority"]) == (9, 1)


@pytest.mark.parametrize(
    ("dialect", "name", "value", "theirs"),
    [
        (LLAMACPP, "repetition_penalty", 1.5, {"repeat_penalty": 1.5}),
        (SGLANG, "include_stop_str_in_output", True, {"no_stop_trim": True}),
        (TRTLLM, "parallel_tool_calls", True, {}),
        (VLLM, "parallel_tool_calls", True, {"parallel_tool_calls": True}),
    ],
)
def test_each_server_has_its_own_names(dialect: Dialect, name: str, value: object, theirs: dict[str, object]) -> None:
    plain, body = body_of(chat(), dialect), body_of(chat(**{name: value}), dialect)
    assert {name: value for name, value in body.items() if name not in plain} == theirs


def test_reasoning_of_earlier_turns_has_the_servers_name() -> None:
    call = ToolCall("c1", Called("f", "{}"))
    turns = (Message("user", "hi"), Message("assistant", None, reasoning="hm", tool_calls=(call,)))
    question = Question(operation="chat", messages=turns)
    assert body_of(question, VLLM)["messages"][1]["reasoning"] == "hm"
    theirs = body_of(question, SGLANG)["messages"]
    assert theirs[1]["reasoning_content"] == "hm"
    assert theirs[1]["tool_calls"] == [{"id": "c1", "function": {"name": "f", "arguments": "{}"}, "type": "function"}]
    assert theirs[0] == {"role": "user", "content": "hi"}


def test_prompts_are_a_text_token_ids_or_a_batch() -> None:
    def completion(*prompt: Any) -> Any:
        return body_of(Question(operation="text_completion", prompt=prompt, logprobs=2, echo=True))

    assert completion("a")["prompt"] == "a"
    assert completion((1, 2))["prompt"] == [1, 2]
    assert completion("a", "b")["prompt"] == ["a", "b"]
    assert (completion("a")["logprobs"], completion("a")["echo"]) == (2, True)


def test_a_count_has_what_the_template_renders() -> None:
    raw = bodies.counting(chat(tools=({"type": "function"},), temperature=1.0), "llm", VLLM)
    assert raw is not None
    assert set(json.loads(raw)) == {"model", "messages", "tools"}
    assert bodies.counting(Question(operation="text_completion", prompt=((1,),)), "llm", VLLM) is None


@pytest.mark.parametrize("dialect", DIALECTS.values())
def test_every_parameter_has_its_handling_at_every_server(dialect: Dialect) -> None:
    assert set(dialect.capabilities.parameters) == set(PARAMETERS)
    assert set(dialect.renamed) == {n for n, h in dialect.capabilities.parameters.items() if h == "translated"}
    assert dialect is not OTHER or set(dialect.capabilities.parameters.values()) == {"forwarded"}
