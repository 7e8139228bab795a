"""Makes a model call a function, where the client says that it must (`tool_choice`) and the server only guides its output:
by a JSON schema of all calls that are allowed, as vLLM does it (`vllm/tool_parsers/utils.py`).
"""

from typing import Any

import msgspec

from inference.core.question import Question


def is_forced(question: Question) -> bool:
    """Whether the answer has to be a call."""
    return bool(question.tools) and (question.tool_choice == "required" or isinstance(question.tool_choice, dict))


def forced(question: Question) -> Question:
    """The question with the schema that only calls fulfil. Raises ValueError if the chosen function is none of `tools`."""
    choice = question.tool_choice
    name = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    functions = [tool.get("function", {}) for tool in question.tools]
    allowed = [function for function in functions if name is None or function.get("name") == name]
    if not allowed:
        raise ValueError(f"function {name!r} is none of `tools`")
    schema: dict[str, Any] = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [_call(function) for function in allowed]},
    }
    if name is not None or question.parallel_tool_calls is False:
        schema["maxItems"] = 1
    definitions: dict[str, Any] = {}
    for function in allowed:
        definitions |= (function.get("parameters") or {}).get("$defs", {})
    if definitions:
        schema["$defs"] = definitions
    json_schema = {"name": "calls", "schema": schema, "strict": True}
    return msgspec.structs.replace(
        question, response_format={"type": "json_schema", "json_schema": json_schema}, structured_outputs=None
    )


def _call(function: dict[str, Any]) -> dict[str, Any]:
    parameters = {key: value for key, value in (function.get("parameters") or {}).items() if key != "$defs"}
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [function.get("name")]},
            "parameters": parameters or {"type": "object", "properties": {}},
        },
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }
