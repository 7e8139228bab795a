"""What of a request decides its answer, written in one way, for hashing alone: no server ever sees it.

Unified: the order of members, but for what lies inside of them, where it may decide the answer (schemas, templates); null
and absence; line ends and white space around what people wrote; a text and a list with it as the only part; a seed at
temperature 0, where nothing is drawn; white space and the order of members in a tool's result that is JSON. Left out: what is
for the provider's own accounting.
"""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

_NEUTRAL = frozenset(("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "priority"))
"""What changes no answer."""
_WRITTEN_BY_PEOPLE = ("system", "developer", "user")
MAX_JSON_CHARS = 64 << 10
"""A longer result of a tool is hashed as it is."""
_encode = msgspec.msgpack.Encoder().encode


def canonical(path: str, document: dict[str, Any], *, exact: bool = False) -> bytes:
    """Equal for two requests of one URL exactly if they ask for the same. With `exact` every character of a message counts."""
    return _encode((path, sorted(_fields(document, exact=exact).items())))


def digest(path: str, document: dict[str, Any], *, exact: bool = False) -> bytes:
    """The same of a long request, hashed in steps."""
    hashed = blake2b(path.encode())
    for name, value in sorted(_fields(document, exact=exact).items()):
        parts = value if isinstance(value, list) else (value,)
        hashed.update(_encode((name, isinstance(value, list), len(parts))))
        for part in parts:
            hashed.update(_encode(part))
    return hashed.digest()


def _fields(document: dict[str, Any], *, exact: bool) -> dict[str, Any]:
    fields = {name: value for name, value in document.items() if value is not None and name not in _NEUTRAL}
    if fields.get("temperature") == 0:
        fields["temperature"] = 0
        fields.pop("seed", None)
    messages = fields.get("messages")
    if isinstance(messages, list) and not exact:
        fields["messages"] = [_message(message) for message in messages]
    return fields


def _message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        (part,) = content
        content = part["text"] if part.keys() == {"type", "text"} and part["type"] == "text" else content
    if isinstance(content, str):
        content = content.replace("\r\n", "\n").replace("\r", "\n") if "\r" in content else content
        if message.get("role") in _WRITTEN_BY_PEOPLE:
            content = content.strip()
        elif message.get("role") == "tool" and content[:1] in ("{", "[") and len(content) <= MAX_JSON_CHARS:
            content = _json(content)
    return sorted((message | {"content": content}).items())


def _json(text: str) -> str | bytes:
    """A text in JSON without its white space, the members of objects in order, and numbers as they are written; other text as it is."""
    try:
        return _encode(_decoder.decode(text))
    except (ValueError, RecursionError, OverflowError):  # no JSON, or a name twice in an object
        return text


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(sorted(pairs, key=lambda pair: pair[0]))
    if len(members) < len(pairs):
        raise ValueError("a name is there twice")
    return members


# Numbers become bytes, which nothing else in JSON does.
_decoder = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=str.encode, parse_int=str.encode, parse_constant=str.encode
)
