"""The URLs that a server would fetch for a request that it gets as it came."""

from collections.abc import Iterable, Iterator
from typing import Any

from inference.core.openai.checks import check_image

_MAX_DEPTH = 8  # from the list of messages to the parts of a tool's result
_IMAGES = frozenset(("image_url", "input_image", "image"))


def remote(document: dict[str, Any], names: Iterable[str]) -> list[str]:
    """The URLs in these members. What a client sends as data is not looked at. Raises ApiError where one is not `https:` with a
    host's name that may be on the internet.
    """
    urls = []
    for name in names:
        for where, url in _urls(name, document.get(name), 0):
            check_image(where, url)
            urls.append(url)
    return urls


def images(value: Any, depth: int = 0) -> int:
    """How many parts of messages are images."""
    if depth > _MAX_DEPTH:
        return 0
    if isinstance(value, list):
        return sum(images(part, depth + 1) for part in value if isinstance(part, list | dict))
    if isinstance(value, dict):
        return 1 if value.get("type") in _IMAGES else images(value.get("content"), depth + 1)
    return 0


def _urls(where: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for number, part in enumerate(value):
            if isinstance(part, list | dict):
                yield from _urls(f"{where}[{number}]", part, depth + 1)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name.endswith("_url") or (name == "url" and value.get("type") == "url"):
                url = part.get("url") if isinstance(part, dict) else part
                if isinstance(url, str) and not url.startswith("data:"):
                    yield f"{where}.{name}" + (".url" if isinstance(part, dict) else ""), url
            elif isinstance(part, list | dict):
                yield from _urls(f"{where}.{name}", part, depth + 1)
