"""What becomes of answers that nobody expects."""

import msgspec
import pytest

from controlplane.lane.core.jobs import answer_of
from controlplane.lane.core.results import Usage, answered, ends_as, usage_of


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x":NaN}',
        b'{"x":"\\ud83d"}',
        b'{"x":"\xff"}',
        b"<html>",
    ],
    ids=["deep", "no number", "half a pair", "no UTF-8", "a page"],
)
def test_an_answer_that_is_no_json_is_a_text_that_can_be_read_again(body: bytes) -> None:
    line = answered("batch_1", 1, "first", 200, "r", body)
    assert msgspec.json.decode(line)["response"]["body"] == body.decode("utf-8", "replace")
    assert answer_of(line) == (200, body.decode("utf-8", "replace"))
    assert (usage_of(body), ends_as(body)) == (Usage(), "")


def test_a_number_beyond_all_stays_as_it_is_written() -> None:
    line = answered("batch_1", 1, "first", 200, "r", b'{"x":1e400}')
    assert b'"body":{"x":1e400}' in line
    assert answer_of(line) == (200, {"x": float("inf")})


def test_a_count_that_nobody_can_believe_is_none() -> None:
    body = b'{"usage":{"prompt_tokens":%d,"completion_tokens":7}}' % (1 << 80)
    assert usage_of(body) == Usage(output=7)
