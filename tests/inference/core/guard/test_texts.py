"""What the guard reads of a request: what people wrote, and neither names of the API nor media."""

from typing import Any

import pytest

from inference.core.guard.texts import LOGPROBS, MEDIA, NAMES, texts


@pytest.mark.parametrize("name", sorted({*NAMES, *MEDIA, *LOGPROBS}))
def test_names_media_and_tokens_are_not_read(name: str) -> None:
    assert list(texts({name: "4111 1111 1111 1111"})) == []


def test_whatever_else_has_a_text_is_read_however_deep() -> None:
    call: Any = {"function": {"name": "look", "arguments": '{"a": 1}'}, "id": "call_1", "type": "function"}
    message = {"role": "assistant", "content": [{"type": "text", "text": "first"}], "tool_calls": [call], "index": 0}
    assert list(texts({"model": "m", "messages": [message], "user": "u"})) == ["first", "look", '{"a": 1}', "u"]
