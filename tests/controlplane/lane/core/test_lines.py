"""What is said of lines before one of them runs."""

import json
from typing import Any

import pytest

from controlplane.lane.core import lines
from controlplane.lane.core.lines import Check, Place
from controlplane.lane.core.results import Usage, answered, unanswered, usage_of
from inference.contract.lane import ENDPOINTS as ALLOWED
from inference.request.parse import ENDPOINTS
from tests.support.lane.process import a_line

CHAT = "/v1/chat/completions"


def codes(*given: Any, endpoint: str = CHAT) -> list[tuple[int, str]]:
    check = Check(endpoint)
    for number, line in enumerate(given, 1):
        check.take(line if isinstance(line, bytes) else json.dumps(line).encode(), Place(number, 0, 0))
    return [(problem.line, problem.code) for problem in check.end()]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "invalid_json_line"),
        (b'{"custom_id": "\xff"}', "invalid_json_line"),
        (b'{"custom_id": "a", "x": ' + b"[" * 100_000, "invalid_json_line"),
        (b"\xef\xbb\xbf" + json.dumps(a_line("a", "x")).encode(), "invalid_json_line"),
        (json.dumps(a_line("a", "x")).encode().replace(b'"x"', b'"\xff"'), "invalid_json_line"),
        (b"[]", "invalid_request"),
        ({"custom_id": 1}, "invalid_request"),
        (a_line("", "x"), "invalid_custom_id"),
        (a_line("x" * 513, "x"), "invalid_custom_id"),
        (a_line("a", "x") | {"method": "GET"}, "invalid_method"),
        (a_line("a", "x", url="/v1/embeddings"), "mismatched_url"),
        (a_line("a", "x") | {"body": []}, "invalid_request"),
        (a_line("a", "x", model=""), "missing_model"),
        (a_line("a", "x", model=7), "missing_model"),
        (a_line("a", "x", model="m\0"), "missing_model"),
        (a_line("a", "x", stream=True), "stream_not_supported"),
    ],
)
def test_a_wrong_line_is_named(line: Any, code: str) -> None:
    assert codes(a_line("good", "x"), b" ", line) == [(3, code)]


def test_what_was_taken_can_be_read_again_from_deeper_in_the_stack() -> None:
    def deeper(text: bytes, frames: int) -> None:
        deeper(text, frames - 1) if frames else lines.decode(text)

    taken = 0
    for depth in range(1_000):
        nested = b"[" * depth + b"]" * depth
        text = json.dumps(a_line("a", "x")).encode().replace(b'"x"', nested)
        if codes(text) == []:
            deeper(text, 50)
            taken += 1
    assert 0 < taken < 1_000


def test_what_prompts_begin_with_is_compared_and_their_rest_is_not() -> None:
    tool = [{"type": "function", "function": {"name": "f"}}]

    def prefix(*messages: tuple[str, str], **body: Any) -> int:
        check, given = Check(CHAT), [{"role": role, "content": text} for role, text in messages]
        line = a_line("a", "x", **body)
        line["body"]["messages"] = given or line["body"]["messages"]
        check.take(json.dumps(line).encode(), Place(1, 0, 0))
        assert not check.end()
        return check.places[0].prefix

    alike = {prefix(("system", "Be brief."), ("user", text)) for text in ("a", "b")}
    others = [
        prefix(),
        prefix(("user", "Be brief.")),
        prefix(("system", "Be kind."), ("user", "a")),
        prefix(("system", "Be brief."), tools=tool),
        prefix(instructions="Be brief."),
        prefix(system="Be brief, please."),
    ]
    assert len(alike) == 1 and len({*alike, *others}) == 6, "the first two of the others have no beginning of their own"
    assert others[0] == others[1] == 0
    assert prefix(messages={"no": "list"}) == 0, "the gateway says what is wrong with it"


def test_files_have_bounds() -> None:
    assert codes() == codes(b"") == [(0, "empty_file")]
    assert codes(*[b"{"] * 150) == [(number, "invalid_json_line") for number in range(1, 101)]
    inputs = {"model": "m", "input": ["x"] * 30_000}
    given = [{"custom_id": f"{it}", "method": "POST", "url": "/v1/embeddings", "body": inputs} for it in range(3)]
    assert codes(*given, endpoint="/v1/embeddings") == [(2, "too_many_inputs")]


def test_a_batch_may_be_for_what_the_gateway_answers_with_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENDPOINTS.keys() >= ALLOWED
    assert not [path for path in ALLOWED if ENDPOINTS[path].is_form]
    monkeypatch.setattr(lines, "MAX_REQUESTS", 2)
    assert codes(*(a_line(f"{it}", "x") for it in range(5))) == [(3, "too_many_requests")]
    check = Check(CHAT)
    for number in range(1, 1_000):
        check.take(json.dumps(a_line(f"{number}", "x")).encode(), Place(number, 0, 0))
    assert check.full and len(check.places) == 2, "no more are kept than a batch may have"


def test_a_result_is_a_line_whatever_was_answered() -> None:
    for body, read in (
        (b'{\n "a": "1\\n2"\r\n}', {"a": "1\n2"}),
        (b"<html>\n", "<html>\n"),
        (b'{"a": "\xff"}', '{"a": "\ufffd"}'),
    ):
        text = answered("batch_1", 1, "id", 200, "r", body)
        assert text.count(b"\n") == 1 and json.loads(text)["response"]["body"] == read
    lost = json.loads(unanswered("batch_1", 1, "id", "worker_lost"))
    assert (lost["response"], lost["error"]["code"], lost["id"]) == (None, "worker_lost", json.loads(text)["id"])


def test_usage_is_read_of_every_route() -> None:
    chat = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    responses = {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}
    assert usage_of(json.dumps({"usage": chat}).encode()) == Usage(5, 2, 3, 0)
    assert usage_of(json.dumps({"usage": responses}).encode()) == Usage(5, 0, 3, 1)
    for nothing in (
        b"",
        b"[]",
        b"{}",
        b'{"usage": null}',
        b'{"usage": {"prompt_tokens": "5", "completion_tokens": -1}}',
    ):
        assert usage_of(nothing) == Usage()
