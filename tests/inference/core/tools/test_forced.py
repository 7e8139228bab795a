"""A call that the client forces is guided by a schema."""

from typing import Any

import jsonschema
import pytest

from inference.core.question import Question
from inference.core.tools.forced import forced, is_forced

LOOK = {
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"$ref": "#/$defs/place"}}, "required": ["at"]},
}
LOOK["parameters"]["$defs"] = {"place": {"type": "string"}}
NOW = {"name": "now"}
TOOLS = tuple({"type": "function", "function": function} for function in (LOOK, NOW))


def schema(choice: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    question = forced(Question(operation="chat", tools=TOOLS, tool_choice=choice, **fields))
    assert question.response_format is not None
    return question.response_format["json_schema"]["schema"]  # type: ignore[no-any-return]


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def call(name: str, **parameters: Any) -> dict[str, Any]:
    return {"name": name, "parameters": parameters}


def test_required_allows_calls_of_all_functions_and_nothing_else() -> None:
    required = schema("required")
    assert fits([call("look", at="sea")], required)
    assert fits([call("look", at="sea"), call("now")], required)
    for other in ([], {}, "look", [call("look")], [call("look", at=3)], [call("leave")], [call("now") | {"x": 1}]):
        assert not fits(other, required)


def test_without_parallel_calls_there_is_a_single_call() -> None:
    assert not fits([call("now"), call("now")], schema("required", parallel_tool_calls=False))


def test_a_named_function_is_the_only_choice() -> None:
    named = schema({"type": "function", "function": {"name": "now"}})
    assert fits([call("now")], named)
    assert not fits([call("look", at="sea")], named)
    assert not fits([call("now"), call("now")], named)


def test_a_name_that_is_no_tool_is_refused() -> None:
    with pytest.raises(ValueError, match="'leave' is none of `tools`"):
        schema({"type": "function", "function": {"name": "leave"}})


def test_only_required_and_named_choices_force() -> None:
    choices: list[str | dict[str, Any]] = ["", "auto", "none", "required", {"type": "function"}]
    assert [is_forced(Question(operation="chat", tools=TOOLS, tool_choice=choice)) for choice in choices] == [
        False
    ] * 3 + [True] * 2
    assert not is_forced(Question(operation="chat", tool_choice="required"))
