"""Attributes as 64-bit tokens, by which a request is found by any attribute of any of its spans. Pure.

Values that many requests share, *labels*, are kept apart from those that tell requests apart, so that a store can hold each as suits it.
Which is which is guessed from key and value alone, so that who writes and who asks guess alike: a wrong guess costs time, never a result.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

from controlplane.telemetry.core.spans import AttrValue, Span

MAX_TOKENS = 1_000
"""Of one request; what comes after is not found by."""
LONGEST_TEXT = 256
"""Characters. Longer values are not found by: nobody types one."""
LONGEST_LABEL = 64
"""Characters."""
_MOST_KEYS, _MOST_KNOWN = 1_000, 4_096
_NONE = 2**64

_IDENTIFIES = re.compile(r"^-?\d{4,}$|\d{5}|[0-9a-fA-F]{8}")
"""Whole numbers from 1,000 on; texts with a long run of digits or of hexadecimal ones."""
_MOST_DIGITS = 16
"""Of a label, in all: a point in time has more."""

_known: dict[str, dict[str | int, int]] = {}
"""Tokens by key and value, for most repeat from span to span: a label's as it is, another's complement, which is negative."""


def token(key: str, value: str) -> int:
    """Of an attribute as people write it: text as it is, whole numbers in decimal, `true` and `false`."""
    return int.from_bytes(blake2b(f"{key}={value}".encode("utf-8", "replace"), digest_size=8).digest(), "little")


def written(key: str, value: AttrValue) -> str | None:
    """The value as people write it; None where the attribute is not found by: fractions, lists, durations (`_ns`), long texts."""
    if isinstance(value, float | tuple) or key.endswith("_ns"):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_TEXT else None


def is_label(key: str, value: str) -> bool:
    """Whether requests are taken to share this value (as people write it): `weir.tier=gold` and not `user.id=olga`."""
    if key.endswith((".id", "_id", "Id", "ID")) or len(value) > LONGEST_LABEL:
        return False
    if _IDENTIFIES.search(value) is not None:
        return False
    return len(value) <= _MOST_DIGITS or sum(map(str.isdecimal, value)) <= _MOST_DIGITS


def tokens(spans: Iterable[Span]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of labels and of all other attributes; each distinct, ascending. Of a list, each element counts."""
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
    kept = sorted(found)[:MAX_TOKENS]
    others = bisect_left(kept, 0)
    return tuple(kept[others:]), tuple([~one for one in reversed(kept[:others])])


def _token(known: dict[str | int, int], key: str, value: str | int) -> int:
    if isinstance(value, bool):
        value = "true" if value else "false"  # to a dict, True is 1
    made = known.get(value)
    if made is None:
        text = written(key, value)
        if text is None:
            made = _NONE
        else:
            made = token(key, text)
            if not is_label(key, text):
                made = ~made
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
