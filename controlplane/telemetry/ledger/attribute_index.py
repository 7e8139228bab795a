"""Hashes attributes to 64-bit numbers, by which a request is found by any attribute of any of its spans.

Values that many requests share, *labels*, are kept apart from those that identify a request, so that the store can hold each in a suitable
column. Key and value alone decide which is which, so the reader and the writer always agree. A wrong guess costs time, never a result.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

from controlplane.telemetry.core.spans import AttrValue, Span

MAX_HASHES = 1_000
"""Of one request. A request is not found by the attributes after these."""
MAX_TEXT_CHARS = 256
"""Characters. Longer values are left out, because nobody types one."""
MAX_LABEL_CHARS = 64
"""Characters."""
_MAX_KEYS, _MAX_KNOWN = 1_000, 4_096
_NONE = 2**64

_IDENTIFIES = re.compile(r"^-?\d{4,}$|\d{5}|[0-9a-fA-F]{8}")
"""Whole numbers from 1,000 on; texts with a long run of digits or of hexadecimal ones."""
_MAX_DIGITS = 16
"""Decimal digits in a label. A timestamp has more digits."""

_known: dict[str, dict[str | int, int]] = {}
"""Hashes by key and value: most repeat from span to span. A label has its hash, any other value the complement, which is negative."""


def attribute_hash(key: str, value: str) -> int:
    """The hash of an attribute whose value is written as text: whole numbers in decimal, `true` and `false`."""
    return int.from_bytes(blake2b(f"{key}={value}".encode("utf-8", "replace"), digest_size=8).digest(), "little")


def written(key: str, value: AttrValue) -> str | None:
    """The value as text. None for what is not in the index: fractions, lists, durations (`_ns`), long texts."""
    if isinstance(value, float | tuple) or key.endswith("_ns"):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_TEXT_CHARS else None


def is_label(key: str, value: str) -> bool:
    """Whether requests are taken to share this value, written as text: `weir.tier=gold`, but not `user.id=olga`."""
    if key.endswith((".id", "_id", "Id", "ID")) or len(value) > MAX_LABEL_CHARS:
        return False
    return _IDENTIFIES.search(value) is None and sum(map(str.isdecimal, value)) <= _MAX_DIGITS


def index_of(spans: Iterable[Span]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The hashes of labels, and those of all other attributes: each distinct, ascending. Each element of a list counts."""
    hashes: set[int] = set()
    for span in spans:
        for key, value in span.attributes.items():
            known = _known.get(key)
            if known is None:
                known = _new(key)
            if isinstance(value, tuple):
                for part in value:
                    if not isinstance(part, tuple | float):
                        hashes.add(_hash(known, key, part))
            elif not isinstance(value, float):
                hashes.add(_hash(known, key, value))
        if len(hashes) > MAX_HASHES:
            break
    hashes.discard(_NONE)
    kept = sorted(hashes)[:MAX_HASHES]
    others = bisect_left(kept, 0)
    return tuple(kept[others:]), tuple([~complement for complement in reversed(kept[:others])])


def _hash(known: dict[str | int, int], key: str, value: str | int) -> int:
    if isinstance(value, bool):
        value = "true" if value else "false"  # to a dict, True is 1
    hashed = known.get(value)
    if hashed is None:
        text = written(key, value)
        if text is None:
            hashed = _NONE
        else:
            hashed = attribute_hash(key, text)
            if not is_label(key, text):
                hashed = ~hashed
        if len(known) >= _MAX_KNOWN:
            known.clear()
        known[value] = hashed
    return hashed


def _new(key: str) -> dict[str | int, int]:
    if len(_known) >= _MAX_KEYS:
        _known.clear()
    known: dict[str | int, int] = {}
    _known[key] = known
    return known
