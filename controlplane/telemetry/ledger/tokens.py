"""Attributes as 64-bit tokens, by which a request is found by any attribute of any of its spans. Pure."""

from collections.abc import Iterable
from hashlib import blake2b

from controlplane.telemetry.spans import AttrValue, Span

MAX_TOKENS = 1_000
"""Of one request; what comes after is not found by."""
LONGEST_TEXT = 256
"""Characters. Longer values are not found by: nobody types one."""
_MOST_KEYS, _MOST_KNOWN = 1_000, 4_096
_NONE = -1

_known: dict[str, dict[str | int, int]] = {}
"""Tokens by key and value: most repeat from span to span."""


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
            known = _known.get(key)
            if known is None:
                known = _new(key)
            if isinstance(value, tuple):
                for part in value:
                    if not isinstance(part, tuple | float):
                        found.add(_token(known, key, part))
            elif not isinstance(value, float):
                found.add(_token(known, key, value))
        if len(found) > MAX_TOKENS:
            break
    found.discard(_NONE)
    return tuple(sorted(found)[:MAX_TOKENS])


def _token(known: dict[str | int, int], key: str, value: str | int) -> int:
    if isinstance(value, bool):
        value = "true" if value else "false"  # to a dict, True is 1
    made = known.get(value)
    if made is None:
        text = written(key, value)
        made = _NONE if text is None else token(key, text)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[value] = made
    return made


def _new(key: str) -> dict[str | int, int]:
    if len(_known) >= _MOST_KEYS:
        _known.clear()
    found: dict[str | int, int] = {}
    _known[key] = found
    return found
