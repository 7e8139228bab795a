"""What is read of a request that is handed on, and what is made of some of its inputs."""

import json
from typing import Any

import pytest

from inference.core.openai.errors import ApiError
from inference.core.passing import request
from inference.core.passing.inputs import inputs_of
from inference.core.passing.request import Passed, kept_to, made, read
from inference.core.passing.texts import texts_of, token_ids, tokens_of, written

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


def embedding(*given: Any, **more: Any) -> Passed:
    return read("/v1/embeddings", "embeddings", json.dumps({"model": "m", "input": [*given], **more}).encode())


@pytest.mark.parametrize("text", ["c", "c" * 70_000])
def test_some_of_the_inputs_make_a_request_of_their_own(text: str) -> None:
    whole = embedding("a", [1, 2], text, text, user="u").but({"model": b'"other"'})
    is_long = len(text) > 1
    if is_long:
        assert whole.inputs is None, "it takes long to find them"
        whole.read_through()
        assert whole.document["input"] is None
    assert whole.inputs is not None
    assert whole.inputs.rest == {"model": "m", "user": "u"}
    first, second, *same = whole.inputs.digests
    assert len({first, second, *same}) == 3 and same[0] == same[1]
    assert whole.inputs_at([2, 0]) == [text, "a"]
    some = whole.with_inputs([1, 2])
    assert json.loads(some.rendered({})) == {"model": "other", "input": [[1, 2], text], "user": "u"}
    assert some.inputs is not None and some.inputs.digests == (second, same[0])
    assert (some.document["input"] is None) is is_long


@pytest.mark.parametrize(
    ("given", "more", "number"),
    [
        (["a", "b"], {"dimensions": None, "late_chunking": None}, 2),
        (["a", [1]], {"dimensions": 4, "user": "u"}, 2),
        (["a"] * 2048, {}, 2048),
        (["a"] * 2049, {}, 0),
        (["a"], {}, 0),
        ([], {}, 0),
        ("ab", {}, 0),
        ([1, 2], {}, 0),
        (["a", []], {}, 0),
        (["a", ["b"]], {}, 0),
        (["a", [1, True]], {}, 0),
        (["a", {}], {}, 0),
        (["a", "b"], {"late_chunking": True}, 0),
        (["a", "b"], {"user": []}, 0),
        (["a", "b"], {"user": {}}, 0),
        (["a", "\ud800"], {}, 0),
        (["a", [1 << 64]], {}, 0),
        (["a", "b"], {"truncation_side": "\ud800"}, 0),
        (["a", "b"], {"dimensions": 1 << 64}, 0),
    ],
)
def test_inputs_are_known_where_each_has_an_answer_of_its_own(given: Any, more: dict[str, Any], number: int) -> None:
    document = {"model": "m", "input": given, **more}
    known = inputs_of("embeddings", document)
    assert len(known.digests if known else ()) == number
    assert inputs_of("rerank", document) is None


def test_inputs_that_are_changed_are_not_known_by_what_they_were() -> None:
    assert embedding("a", "b").but({"input": b"[]"}).inputs is None


def test_requests_of_many_parameters_are_refused() -> None:
    most = {"model": "m"} | dict.fromkeys(map(str, range(1023)))
    passed = read(CHAT, "chat", json.dumps(most).encode())
    assert len(passed.document) == 1024
    with pytest.raises(ApiError, match=r"more than 1,024 parameters"):
        read(CHAT, "chat", json.dumps(most | {"x": 1}).encode())
    some = dict(list(most.items())[:65])
    kept, unknown = kept_to(made(CHAT, "chat", some), ("model",))
    assert (kept.document, len(unknown)) == ({"model": "m"}, 64)
    assert json.loads(kept.rendered({})) == {"model": "m"}
    with pytest.raises(ApiError, match=r"65 parameters are not known"):
        kept_to(made(CHAT, "chat", some), ())
    assert kept_to(kept, ("model",)) == (kept, [])


@pytest.mark.parametrize(
    ("path", "document", "facts"),
    [
        # limits, choices, deterministic, one prompt, its parameter
        (CHAT, {"messages": [], "max_tokens": 5.0, "n": 0}, ({"max_tokens": 5}, 1, False, True, "messages")),
        (CHAT, {"messages": [], "max_tokens": "5", "n": 3, "seed": 0}, ({"max_tokens": 5}, 3, True, True, "messages")),
        (CHAT, {"messages": [], "max_tokens": "x", "n": "3"}, ({}, 3, False, True, "messages")),
        (CHAT, {"messages": [], "n": True, "temperature": 0.0}, ({}, 1, True, True, "messages")),
        (RESPONSES, {"input": "a", "max_output_tokens": 7}, ({"max_output_tokens": 7}, 1, False, True, "input")),
        ("/v1/completions", {"prompt": ["a", "b"], "n": 2.0}, ({}, 4, False, True, "prompt")),
        ("/v1/completions", {"prompt": [1, 2], "n": 2}, ({}, 2, False, True, "prompt")),
        ("/v1/completions", {"prompt": []}, ({}, 1, False, True, "prompt")),
        ("/v1/embeddings", {"input": ["a", "b"]}, ({}, 1, True, False, "input")),
        ("/v1/embeddings", {"input": ["a"]}, ({}, 1, True, True, "input")),
        ("/v1/embeddings", {"input": [[1], [2]]}, ({}, 1, True, False, "input")),
        ("/v1/embeddings", {"input": [1, 2]}, ({}, 1, True, True, "input")),
        ("/rerank", {"query": "a"}, ({}, 1, False, False, "query")),
        ("/tokenize", {}, ({}, 1, False, False, "input")),
    ],
)
def test_what_is_known_of_a_request_before_a_server_has_it(
    path: str, document: dict[str, Any], facts: tuple[Any, ...]
) -> None:
    passed = made(path, "embeddings" if "embed" in path else "chat", {"model": "m", **document})
    known = passed.limits, passed.choices, passed.deterministic, passed.is_one_prompt, passed.prompt_param
    assert known == facts
    assert passed.max_tokens == next(iter(facts[0].values()), None)
    name = next(iter(facts[0]), "max_output_tokens" if path == RESPONSES else "max_tokens")
    assert json.loads(passed.at_most(2).rendered({}))[name] == 2
    assert passed.at_most(2).max_tokens == 2


def test_requests_are_known_by_the_beginning_of_their_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = made(CHAT, "chat", {"model": "m", "messages": ["b", {"c": 1}], "tools": ["a"], "prompt": "d", "x": "e"})
    assert passed.head == b'"a""b"{"c":1}"d"'
    assert made(CHAT, "chat", {"model": "m", "prompt": ["x" * 524_288]}).head == b'"' + b"x" * 524_287
    for most, head in ((6, b'"a""b"'), (7, b'"a""b"{')):
        monkeypatch.setattr(request, "HEAD_BYTES", most)
        assert made(CHAT, "chat", dict(passed.document)).head == head
    other = made(CHAT, "chat", {"model": "m", "prompt": ["ab", "c"]})
    assert other.prompt_digest == made(CHAT, "chat", {"model": "n", "prompt": ["ab", "c"]}).prompt_digest
    assert other.prompt_digest != made(CHAT, "chat", {"model": "m", "prompt": ["abc"]}).prompt_digest


def test_models_of_any_letters_are_named_and_urls_are_noted() -> None:
    body = json.dumps({"model": "ü", "messages": [{"image_url": "https://example.com/a"}]}, ensure_ascii=False)
    passed = read(CHAT, "chat", body.encode())
    assert (passed.model, passed.streams, passed.remote_media) == ("ü", False, ["https://example.com/a"])
    assert made(CHAT, "chat", {"model": "m", "stream": True}).streams


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (5, 5),
        (5.9, 5),
        ("5.0", 5),
        (0, 0),
        (-1, None),
        (None, None),
        (True, None),
        ("x", None),
        (float("inf"), None),
        ([5], None),
    ],
)
def test_numbers_of_tokens_are_read_as_servers_in_python_read_them(value: Any, tokens: int | None) -> None:
    assert tokens_of(value) == tokens


def test_texts_and_token_ids_are_found_as_deep_as_prompts_have_them() -> None:
    def nested(value: Any, levels: int) -> Any:
        return value if not levels else [nested(value, levels - 1)]

    assert [list(texts_of(nested({"text": "a"}, depth))) for depth in (0, 6, 7)] == [["a"], ["a"], []]
    assert list(texts_of({"text": "a", "content": ["b", {"text": 1, "content": "c"}, 2]})) == ["a", "b", "c"]
    assert [token_ids(value) for value in ([1, 2], [[1, 2], [3]], [[[1]]], [True, "a"], 1)] == [2, 3, 0, 0, 0]
    assert written("\ud800") == b'"\\ud800"'
    assert written([1 << 64]) == b"[18446744073709551616]"
