"""Whether two answers are the same: by their words, whatever their case, spaces and last full stop, and by their calls of tools.

Answers in free words seldom are, though they may say the same: that is then a wrong label, so that such a route never serves.
"""

import json
from typing import Any, NamedTuple

import msgspec

from inference.core.events import WholeAnswer

Said = tuple[str, ...]
"""What an answer says: its text, the reason for its end, and the calls of tools with their arguments."""

_decode = msgspec.json.decode


def same(answer: WholeAnswer, other: WholeAnswer) -> bool:
    """False also where one of them cannot be read."""
    said = what_it_says(answer)
    return said is not None and said == what_it_says(other)


def what_it_says(answer: WholeAnswer) -> Said | None:
    """None of an answer that has another number of choices than one, or cannot be read."""
    said = raw(answer)
    if said is None:
        return None
    plain = " ".join(said.text.casefold().split()).rstrip(".")
    return (plain, said.reason, *(f"{name}({_canonical(arguments)})" for name, arguments in said.calls))


class Raw(NamedTuple):
    """The text of an answer, the reason for its end, and the names and arguments of its calls, as they came."""

    text: str
    reason: str
    calls: list[tuple[str, str]]


def raw(answer: WholeAnswer) -> Raw | None:
    """None as above."""
    if answer.handed is not None:
        return _of_body(answer.handed.body)
    if len(answer.choices) != 1:
        return None
    choice = answer.choices[0]
    return Raw(choice.text, choice.finish_reason, [(call.name, call.arguments) for call in choice.tool_calls])


def _of_body(body: bytes) -> Raw | None:
    """Of a server's own answer, whole or as a stream of events."""
    try:
        if not body.lstrip().startswith((b"data:", b":", b"event:")):
            (choice,) = _decode(body)["choices"]
            message = choice["message"]
            calls = [(it["function"]["name"], it["function"]["arguments"]) for it in message.get("tool_calls") or ()]
            return _checked(message.get("content") or "", choice["finish_reason"] or "", calls)
        return _of_events(body)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _of_events(body: bytes) -> Raw:
    text, reason = list[str](), ""
    calls = dict[int, list[str]]()
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        for choice in _decode(data).get("choices") or ():
            delta: dict[str, Any] = choice.get("delta") or {}
            text.append(delta.get("content") or "")
            reason = choice.get("finish_reason") or reason
            for call in delta.get("tool_calls") or ():
                parts, function = calls.setdefault(call["index"], ["", ""]), call.get("function") or {}
                parts[0] += function.get("name") or ""
                parts[1] += function.get("arguments") or ""
    return _checked("".join(text), reason, [(name, arguments) for name, arguments in calls.values()])


def _checked(text: str, reason: str, calls: list[tuple[str, str]]) -> Raw:
    """Raises TypeError of what is no text."""
    if not all(isinstance(each, str) for each in (text, reason, *(part for call in calls for part in call))):
        raise TypeError
    return Raw(text, reason, calls)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(_decode(arguments), sort_keys=True)
    except ValueError:
        return arguments
