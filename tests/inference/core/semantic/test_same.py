"""Whether two answers are the same, in every form in which they are kept."""

import json
from typing import Any

import pytest

from inference.core.events import Choice, Handed, ToolCall, WholeAnswer
from inference.core.semantic.same import same


def whole(text: str = "", reason: str = "stop", *calls: ToolCall, choices: int = 1) -> WholeAnswer:
    return WholeAnswer((Choice(text, reason, "", calls),) * choices, 1, 1)


def handed(body: bytes) -> WholeAnswer:
    return WholeAnswer((), 1, 1, handed=Handed((), body, "stop"))


def of_json(text: str | None, reason: str = "stop", **message: Any) -> WholeAnswer:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": reason}
    return handed(json.dumps({"id": "x", "choices": [choice]}).encode())


def of_stream(*deltas: dict[str, Any]) -> WholeAnswer:
    events = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    events += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": {}}]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return handed("".join([": a comment\n\n", *lines, "data: [DONE]\n\n"]).encode())


CALL = {"index": 0, "id": "a", "function": {"name": "find", "arguments": '{"a": 1,'}}


ODD = [{"function": {"name": 1, "arguments": ""}}]


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        (whole("Paris."), whole(" paris\n")),
        (whole("Paris."), of_json("paris")),
        (of_json("Paris"), of_stream({"role": "assistant", "content": "Pa"}, {"content": "ris."})),
        (
            whole("", "stop", ToolCall("1", "find", '{"a":1, "b":2}')),
            whole("", "stop", ToolCall("2", "find", '{"b": 2, "a": 1}')),
        ),
        (
            of_stream({"tool_calls": [CALL]}, {"tool_calls": [{"index": 0, "function": {"arguments": '"b": 2}'}}]}),
            of_json(None, tool_calls=[{"id": "z", "function": {"name": "find", "arguments": '{"b":2,"a":1}'}}]),
        ),
    ],
)  # fmt: skip
def test_the_same(answer: WholeAnswer, other: WholeAnswer) -> None:
    assert same(answer, other)
    assert same(other, answer)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        (whole("Paris"), whole("Rome")),
        (whole("Paris"), whole("Paris", "length")),
        (whole("1.5"), whole("15")),
        (whole("", "stop", ToolCall("1", "find", '{"a":1}')), whole("", "stop", ToolCall("1", "find", '{"a":2}'))),
        (whole("Paris"), whole("Paris", "stop", ToolCall("1", "find", "{}"))),
        (whole("Paris", choices=2), whole("Paris", choices=2)),
        (handed(b"not JSON"), handed(b"not JSON")),
        (handed(b"data: {broken\n\n"), handed(b"data: {broken\n\n")),
        (handed(b'{"choices": [1]}'), handed(b'{"choices": [1]}')),
        (of_json(["Paris"]), of_json(["Paris"])),  # type: ignore[arg-type]
        (of_json(None, 1), of_json(None, 1)),  # type: ignore[arg-type]
        (of_json("", tool_calls=ODD), of_json("", tool_calls=ODD)),
        (of_stream({"tool_calls": [CALL]}), of_stream({"tool_calls": [CALL | {"index": 1, "function": {"name": "find"}}]})),
    ],
)  # fmt: skip
def test_not_the_same(answer: WholeAnswer, other: WholeAnswer) -> None:
    assert not same(answer, other)
