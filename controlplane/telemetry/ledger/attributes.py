"""Reads span attributes that may be absent, of another type or out of range: returns a valid value or None, and never raises."""

from collections.abc import Mapping
from typing import TypeGuard

from controlplane.telemetry.core.spans import AttrValue

MAX_NUMBER = 1_000_000_000
"""Tokens, versions: a higher number comes from a broken emitter. As seconds 31 years, so that nanoseconds stay within 63 bits."""

Attributes = Mapping[str, AttrValue]


def text(attributes: Attributes, *keys: str) -> str:
    """The first non-empty string among `keys`; `""` where there is none."""
    for key in keys:
        value = attributes.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def texts(attributes: Attributes, key: str) -> tuple[str, ...]:
    """The strings of a list; none where there is no list."""
    value = attributes.get(key)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, tuple) else ()


def count(attributes: Attributes, *keys: str) -> int | None:
    """The first whole number from 0 to `MAX_NUMBER` among `keys`."""
    for key in keys:
        value = attributes.get(key)
        if _is_number(value) and value == int(value):
            return int(value)
    return None


def number(attributes: Attributes, *keys: str) -> float | None:
    """The first number from 0 to `MAX_NUMBER` among `keys`."""
    for key in keys:
        value = attributes.get(key)
        if _is_number(value):
            return float(value)
    return None


def _is_number(value: AttrValue | None) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def seconds_as_ns(attributes: Attributes, *keys: str) -> int | None:
    """A duration given in seconds, in nanoseconds."""
    value = number(attributes, *keys)
    return None if value is None else round(value * 1_000_000_000)


def flag(attributes: Attributes, *keys: str) -> bool:
    """Whether the first of `keys` that is set is true. The string `"true"` counts, because some SDKs send it."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value is True or value == "true"
    return False
