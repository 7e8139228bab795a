"""The texts in a JSON document: whatever is said in it, wherever it stands."""

from collections.abc import Callable, Iterator
from typing import Any

NAMES = frozenset(
    (
        "id",
        "type",
        "role",
        "model",
        "object",
        "tool_call_id",
        "call_id",
        "item_id",
        "response_id",
        "finish_reason",
        "index",
    )
)
"""Members that name something in the API and say nothing."""
MEDIA = frozenset(("data", "url", "image_url", "file_url", "file_data", "b64_json", "encrypted_content", "signature"))
"""Members with media, or what only its maker reads."""
LOGPROBS = frozenset(("logprobs", "token_ids", "prompt_token_ids", "prompt_logprobs"))
"""Members that say the same once more, token by token."""
_MAX_DEPTH = 300  # far beyond what any API has; what is deeper is no text of one


def texts(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        if name not in NAMES and name not in MEDIA:
            yield value
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str | list | dict):
                yield from texts(each, name, depth + 1)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in LOGPROBS and isinstance(each, str | list | dict):
                yield from texts(each, key, depth + 1)


def changed(value: Any, change: Callable[[str], str], name: str = "", depth: int = 0) -> Any:
    """The document with changed texts; itself, the same object, where none is. What says a changed text once more is left out."""
    if isinstance(value, str):
        return value if name in NAMES or name in MEDIA else change(value)
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, list):
        items = [changed(each, change, name, depth + 1) for each in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if isinstance(value, dict):
        members = {
            key: each if key in LOGPROBS else changed(each, change, key, depth + 1) for key, each in value.items()
        }
        if all(members[key] is each for key, each in value.items()):
            return value
        return {key: None if key in LOGPROBS else each for key, each in members.items()}
    return value


Leaf = tuple[tuple[object, ...], dict[str, Any], str]
"""Which text it is a part of, and where it stands."""


def parts(document: dict[str, Any]) -> list[Leaf]:
    """The parts of texts that an event of a stream brings: of each choice, block or item of the answer there is one that goes on."""
    of, leaves = document.get, list[Leaf]()
    at = (of("type"), of("index"), of("output_index"), of("content_index"), of("item_id"))
    _parts(document, at, leaves, in_delta=False)
    return leaves


def _parts(value: dict[str, Any], path: tuple[object, ...], leaves: list[Leaf], *, in_delta: bool) -> None:
    for key, each in value.items():
        if isinstance(each, str):
            if key == "delta" or (in_delta and key not in NAMES) or (key == "text" and "choices" in path):
                leaves.append(((*path, key), value, key))
        elif isinstance(each, dict):
            if key not in LOGPROBS:
                _parts(each, (*path, key), leaves, in_delta=in_delta or key == "delta")
        elif isinstance(each, list) and key not in LOGPROBS:
            for number, item in enumerate(each):
                if isinstance(item, dict):
                    _parts(item, (*path, key, item.get("index", number)), leaves, in_delta=in_delta)


def without_tokens(value: Any) -> None:
    """Take out what says the texts once more, token by token."""
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            without_tokens(each)
    if isinstance(value, dict):
        for name in LOGPROBS & value.keys():
            value[name] = None


def has_token_ids(document: dict[str, Any]) -> bool:
    """Whether its prompt is written in numbers, which only the model reads."""
    for name in ("prompt", "input", "tokens"):
        if name in document and isinstance(value := document[name], list) and value:
            first = value[0]
            if type(first) is int or (isinstance(first, list) and first and type(first[0]) is int):
                return True
    return False
