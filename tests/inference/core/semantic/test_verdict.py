"""What a judge is asked, and that nothing but its one word counts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.events import Choice, Handed, ToolCall, WholeAnswer
from inference.core.semantic.verdict import agrees, question


def said(text: str, reason: str = "stop", calls: tuple[ToolCall, ...] = ()) -> WholeAnswer:
    return WholeAnswer((Choice(text, reason, "", calls),), 1, 1)


def test_one_word_of_the_schema_agrees() -> None:
    assert agrees(said('{"verdict": "same"}'))
    assert agrees(said(' {"verdict":"same"}\n'))
    body = {"choices": [{"index": 0, "message": {"content": '{"verdict":"same"}'}, "finish_reason": "stop"}]}
    assert agrees(WholeAnswer((), 1, 1, handed=Handed((), json.dumps(body).encode(), "stop")))


@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "different"}',
        '{"verdict": "Same"}',
        '{"verdict": "same", "why": ""}',
        '{"verdict": "different", "verdict": "same"}',
        'Sure: {"verdict": "same"}',
        '```json\n{"verdict": "same"}\n```',
        '["same"]',
        '"same"',
        "same",
        "",
    ],
)
def test_nothing_else_does(text: str) -> None:
    assert not agrees(said(text))


def test_an_answer_that_was_cut_or_calls_a_tool_does_not() -> None:
    assert not agrees(said('{"verdict": "same"}', "length"))
    assert not agrees(said('{"verdict": "same"}', calls=(ToolCall("1", "f", "{}"),)))
    assert not agrees(WholeAnswer((Choice('{"verdict": "same"}', "stop"),) * 2, 1, 1))
    assert not agrees(WholeAnswer((), 1, 1, handed=Handed((), b"[]", "stop")))


@given(st.text(), st.text())
def test_texts_stay_in_their_strings(first: str, second: str) -> None:
    """Whatever they are, the model gets one line of ASCII whose only bare quotes are those of the two members."""
    system, user = question(first, second)["messages"]
    assert system == question("", "")["messages"][0]
    assert json.loads(user["content"]) == {"first": first, "second": second}
    assert user["content"].isascii() and user["content"].isprintable()
    assert user["content"].replace("\\\\", "").replace('\\"', "").count('"') == 8
