"""Attributes as 64-bit tokens, by which a request is found by any attribute of any of its spans. Pure."""

from collections.abc import Iterable
from hashlib import blake2b

from controlplane.telemetry.spans import AttrValue, Span

MAX_TOKENS = 1_000
"""Of one request; what comes after is not found by."""
LONGEST_TEXT = 256
"""Characters. Longer values are not found by: nobody types one."""
_MOST_KNOWN = 65_536

_NOT_FOUND_BY = -1

_known: dict[tuple[str, str | int], int] = {}


def token(key: str, value: str) -> int:
    """Of an attribute as people write it: text as it is, whole numbers in decimal, `true` and `false`."""
    return int.from_bytes(blake2b(f"{key}={value}".encode("utf-8", "replace"), digest_size=8).digest(), "little")


def written(key: str, value: AttrValue) -> str | None:
    """The value as people write it; None where the attribute is not found by: fractions, lists, durations (`_ns`), long texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | tuple) or key.endswith("_ns"):
        return None
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_TEXT else None


def tokens(spans: Iterable[Span]) -> tuple[int, ...]:
    """Distinct, ascending. Of a list, each element counts."""
    found: set[int] = set()
    for span in spans:
        for key, value in span.attributes.items():
            if isinstance(value, tuple):
                for part in value:
                    _add(found, key, part)
            else:
                _add(found, key, value)
        if len(found) > MAX_TOKENS:
            break
    return tuple(sorted(found)[:MAX_TOKENS])


def _add(found: set[int], key: str, value: AttrValue) -> None:
    if isinstance(value, bool):
        value = "true" if value else "false"  # to a dict, True is 1
    elif isinstance(value, float | tuple):
        return
    made = _known.get((key, value))
    if made is None:
        text = written(key, value)
        made = token(key, text) if text is not None else _NOT_FOUND_BY
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key, value] = made
    if made != _NOT_FOUND_BY:
        found.add(made)
