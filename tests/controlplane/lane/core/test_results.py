"""What becomes of answers that nobody expects."""

import msgspec
import pytest

from controlplane.lane.core.jobs import answer_of, going_on, new_response, response
from controlplane.lane.core.results import Usage, answered, ends_as, usage_of
from controlplane.lane.core.states import FAILED


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", FAILED),
        (b'{"x":NaN,"usage":{"output_tokens":7}}', ""),
        (b'{"x":"\\ud83d","usage":{"output_tokens":7}}', ""),
        (b'{"x":"\xff","usage":{"output_tokens":7}}', ""),
        (b"<html>", FAILED),
    ],
    ids=["deep", "no number", "half a pair", "no UTF-8", "a page"],
)
def test_an_answer_that_is_no_json_is_a_text_that_can_be_read_again(body: bytes, ends: str) -> None:
    line = answered("batch_1", 1, "first", 200, "r", body)
    assert msgspec.json.decode(line)["response"]["body"] == body.decode("utf-8", "replace")
    status, said = answer_of(line)
    assert (status, msgspec.json.decode(said)) == (200, body.decode("utf-8", "replace"))
    assert (usage_of(body), ends_as(body)) == (Usage() if ends else Usage(output=7), ends)


def test_a_number_beyond_all_stays_as_it_is_written() -> None:
    body = b'{"x":1e400,"output":[{"y":1e400}]}'
    line = answered("batch_1", 1, "first", 200, "r", body)
    assert b'"body":' + body in line
    status, said = answer_of(line)
    assert (status, bytes(said)) == (200, body)
    shown = response({}, "completed", "", {}, (status, said))
    assert b'{"x":1e400,"output":[{"y":1e400}],' in msgspec.json.encode(shown)
    wanted = new_response(b'{"model":"m","input":"on","background":true,"previous_response_id":"resp_1"}')
    assert b'{"y":1e400}' in going_on(wanted, {}, (status, said)).text


def test_a_count_that_nobody_can_believe_is_none() -> None:
    body = b'{"usage":{"prompt_tokens":%d,"completion_tokens":7}}' % (1 << 80)
    assert usage_of(body) == Usage(output=7)
