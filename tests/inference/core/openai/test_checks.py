"""The bounds of what clients may ask for: the last value that is taken, and the first that is not."""

import json
from typing import Any

import pytest

from inference.core.openai import errors
from inference.core.openai.checks import (
    decode_chat,
    decode_completion,
    decode_embedding,
    dropped,
    prompts_of,
)


def completion(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "x", **fields}).encode()


def refusal(**fields: Any) -> errors.ApiError:
    with pytest.raises(errors.ApiError) as refused:
        decode_completion(completion(**fields))
    return refused.value


def test_choices_count_over_all_prompts() -> None:
    assert decode_completion(completion(prompt=["a", "b"], n=64)).n == 64
    refused = refusal(prompt=["a", "b", "c"], n=64)
    assert (refused.param, refused.status) == ("prompt", 400)
    assert "ask for 192 choices, at most 128 are given" in refused.message


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("temperature", 0, 2),
        ("logprobs", 0, 20),
        ("frequency_penalty", -2, 2),
        ("presence_penalty", -2, 2),
        ("n", 1, 128),
        ("top_k", -1, 1 << 31),
        ("min_p", 0, 1),
        ("repetition_penalty", 0.01, 10),
        ("min_tokens", 0, 1 << 31),
    ],
)
def test_the_ends_of_a_range_belong_to_it(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(decode_completion(completion(**{name: value})), name) == value
    for value in (low - 1, high + 1):
        assert refusal(**{name: value}).param == name


def test_a_limit_that_leaves_no_token_is_refused_by_its_own_name() -> None:
    assert decode_completion(completion(max_tokens=1)).output_limit == 1
    refused = refusal(max_tokens=0)
    assert (refused.param, refused.message) == ("max_tokens", "`max_tokens` is 0, it must be at least 1.")


def test_prompts_are_texts_or_token_ids_and_not_both() -> None:
    assert prompts_of([1, 2], "prompt") == ((1, 2),)
    assert prompts_of([[1], "a"], "prompt") == ((1,), "a")
    for given in ([], [1, "a"], [[]]):
        with pytest.raises(errors.ApiError):
            prompts_of(given, "prompt")


def test_an_unknown_parameter_names_the_server_that_does_not_take_it_where_one_is_known() -> None:
    assert errors.unknown_parameter("tpo_p").message == "Unknown parameter: 'tpo_p'."
    assert "It is none that vLLM is known to take here" in errors.unknown_parameter("tpo_p", "vLLM").message


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}).encode()


def says(role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, **fields}]}


def image(url: str | None, role: str = "user") -> dict[str, Any]:
    return says(role, content=[{"type": "image_url", "image_url": url if url is None else {"url": url}}])


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CALL = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"name": "s", "schema": {}}


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "x"}] * 2048},
        {"functions": [], "function_call": "auto", "modalities": ["text"]},
        {"top_logprobs": 20, "logprobs": True},
        {"top_logprobs": 0},
        {"continue_final_message": True, "add_generation_prompt": False},
        {"stream_options": {}, "stream": True},
        {"max_completion_tokens": 1, "top_p": 0.01},
        {"stop": ["a"] * 32},
        {"logit_bias": {str(number): 100 for number in range(4096)}},
        {"logit_bias": {"1": -100}},
        {"response_format": {"type": "text"}},
        {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
        {"structured_outputs": {"choice": ["a"]}},
        {"guided_choice": ["a"]},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [{"type": "function", "function": {"name": "a" * 64}}], "tool_choice": "auto"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": "none"},
        says("assistant", tool_calls=[CALL]),
        says("assistant", refusal="no"),
        says("assistant", content=[{"type": "refusal", "refusal": "no"}, {"type": "text", "text": ""}]),
        says("tool", content="x", tool_call_id="1"),
        image("https://example.com/a.png"),
        image("https://example.com/" + "a" * (8_192 - 20)),
        image("https://8.8.8.8/a.png"),
        image("data:image/png;base64," + "QUJD" * 4_096),
    ],
)
def test_chats_that_are_taken(fields: dict[str, Any]) -> None:
    assert decode_chat(chat(**fields))[1] is (fields.keys() <= {"messages", "stream_options", "stream"})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "x"}] * 2049}, "messages"),
        ({"functions": [{}]}, "functions"),
        ({"function_call": "f"}, "function_call"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"temperature": 3}, "temperature"),
        ({"seed": -1}, "seed"),
        ({"max_completion_tokens": 0, "max_tokens": 1}, "max_completion_tokens"),
        ({"stream_options": {}}, "stream_options"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"top_logprobs": -1, "logprobs": True}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"top_p": 0}, "top_p"),
        ({"stop": ["a"] * 33}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"logit_bias": {str(number): 1 for number in range(4097)}}, "logit_bias"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"٣": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"logit_bias": {"1": -101}}, "logit_bias.1"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "s"}}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "response_format.json_schema.name",
        ),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_regex"),
        ({"guided_choice": ["a"], "structured_outputs": {}}, "guided_choice"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        ({"tools": [TOOL], "tool_choice": "f"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "custom", "function": {"name": "f"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (says(content="x", audio={}, tool_calls=[CALL]), "messages[0].audio"),
        (says("assistant", function_call={}), "messages[0].function_call"),
        (says(tool_calls=[CALL]), "messages[0].tool_calls"),
        (says("tool", content="x"), "messages[0].tool_call_id"),
        (says(), "messages[0].content"),
        (says(content=[]), "messages[0].content"),
        (says(content=[{"type": "text"}]), "messages[0].content[0]"),
        (says(content=[{"type": "refusal", "refusal": "no"}]), "messages[0].content[0]"),
        (says("assistant", content=[{"type": "refusal"}]), "messages[0].content[0]"),
        (image(None), "messages[0].content[0].image_url"),
        (image("https://example.com/a.png", "system"), "messages[0].content[0]"),
        *(
            (image(url), "messages[0].content[0].image_url.url")
            for url in (
                "data:text/plain;base64,QUJD",
                "https://example.com/" + "a" * (8_193 - 20),
                "http://example.com/",
                "https:///a.png",
                "https://[a/",
                "https://me@example.com/",
                "https://10.0.0.1/",
                "https://intranet/",
                "https://a.internal./",
                "https://127.1/",
                "https://localhost/a.png",
                "https://[::1]/a.png",
                "https://169.254.169.254/latest",
                "https://2130706433/a.png",
                "https://0x7f.1/a.png",
                "file:///etc/passwd",
                "data:text/html;base64,AAAA",
                "data:image/png;base64,%%",
            )
        ),
    ],
)
def test_chats_that_are_refused_name_the_parameter(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(errors.ApiError) as refused:
        decode_chat(chat(**fields))
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ["a"] * 2048, "dimensions": 1 << 20}, None),
        ({"input": ["a"], "dimensions": 1}, None),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": (1 << 20) + 1}, "dimensions"),
        ({"input": [(1 << 31) - 1]}, None),
        ({"input": [0, 1 << 31]}, "input"),
        ({"input": [[1], [-1]]}, "input[1]"),
    ],
)
def test_the_bounds_of_inputs_to_embed(fields: dict[str, Any], param: str | None) -> None:
    body = json.dumps({"model": "m", **fields}).encode()
    if param is None:
        assert decode_embedding(body).model == "m"
        return
    with pytest.raises(errors.ApiError) as refused:
        decode_embedding(body)
    assert refused.value.param == param


def test_parameters_without_effect_are_named_unless_they_say_what_holds_anyway() -> None:
    neutral = {"user": "", "metadata": {}, "store": False, "service_tier": "auto", "verbosity": "medium"}
    wishes = {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "flex", "verbosity": "low"}
    keys = {"safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h", "prediction": {}}
    for fields, names in (({}, set()), (neutral, set()), (wishes | keys, {*wishes, *keys})):
        assert set(dropped(decode_chat(chat(**fields))[0])) == names
    assert dropped(decode_completion(completion(user="u"))) == ["user"]
