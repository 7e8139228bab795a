"""Turns notices into the JSON that the outbox keeps, and back."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from controlplane.incidents.notify.core.notice import Change, Notice

MAX_KEY_CHARS = 255


def checked(notice: Notice | Change) -> None:
    """Raises ValueError for a notice that no destination could take."""
    if notice.at.tzinfo is None:
        raise ValueError(f"at={notice.at!r} has no time zone: give an aware datetime")
    if not notice.summary.strip():
        raise ValueError("summary is empty: say what happened")
    if isinstance(notice, Notice):
        if not 0 < len(notice.key) <= MAX_KEY_CHARS:
            raise ValueError(f"key={notice.key[:40]!r}… has {len(notice.key)} characters: use 1 to {MAX_KEY_CHARS}")
        if notice.sequence < 0:
            raise ValueError(f"sequence={notice.sequence} is negative: count from 0 or 1")


def to_json(notice: Notice | Change) -> dict[str, Any]:
    """JSON that every database and destination takes: without NaN and NUL, and with text for types that JSON lacks."""
    stored: dict[str, Any] = _json({**asdict(notice), "at": notice.at.isoformat()})
    return stored


def _json(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {_json(str(name)): _json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json(item) for item in value]
    return _json(str(value))


def notice_of(stored: dict[str, Any]) -> Notice:
    return msgspec.convert(stored, Notice)


def change_of(stored: dict[str, Any]) -> Change:
    return msgspec.convert(stored, Change)
