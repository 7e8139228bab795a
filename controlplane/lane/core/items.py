"""What a response was asked, as a list of items in OpenAI's form."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.lane.core.lines import RefusedError

_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def items(response: str, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the response of this id, in the order of its input. Whatever has no id gets one, the same each time."""
    given = enumerate(listed(request.get("input")))
    return [_item(it, f"{response}:{number}") for number, it in given if isinstance(it, dict)]


def listed(given: Any) -> list[Any]:
    """An input or output: a text is a message of the user."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _item(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    kind = given.get("type") or "message"
    made = {"id": f"{_PREFIXES.get(str(kind), 'item')}_{hashlib.sha256(name.encode()).hexdigest()[:32]}", "type": kind}
    if kind != "message":
        return {**made, **given}
    content = given.get("content")
    if isinstance(content, str):
        is_answer = given.get("role") == "assistant"
        part = {"type": "output_text", "annotations": []} if is_answer else {"type": "input_text"}
        content = [{**part, "text": content}]
    return {**made, "status": "completed", **given, "content": content}


def page(
    every: Sequence[dict[str, Any]], after: str, limit: int, *, falling: bool
) -> tuple[Sequence[dict[str, Any]], bool]:
    """Those that follow the item of the id `after`, and whether there are more. Raises RefusedError."""
    every = list(reversed(every)) if falling else every
    names = [it["id"] for it in every]
    if after and after not in names:
        raise RefusedError("`after` is the id of no item of this response.", "after")
    begin = names.index(after) + 1 if after else 0
    return every[begin : begin + limit], len(every) > begin + limit
