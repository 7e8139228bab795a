"""Reading span attributes that may be absent, of another type, or absurd: a sound value or None, never an error."""

import math
from collections.abc import Mapping

from controlplane.telemetry.core.spans import AttrValue

MAX_COUNT = 10**9  # tokens, versions: more than this is a broken emitter
MAX_SECONDS = 10**9  # 31 years, so that nanoseconds stay within 63 bits

Attributes = Mapping[str, AttrValue]


def text(attributes: Attributes, *keys: str) -> str:
    """The first of `keys` that holds a non-empty string; `""` where none does."""
    for key in keys:
        value = attributes.get(key)
        if value and isinstance(value, str):
            return value
    return ""


def count(attributes: Attributes, *keys: str) -> int | None:
    """The first of `keys` that holds a whole number from 0 to `MAX_COUNT`."""
    for key in keys:
        value = attributes.get(key)
        if value is None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if 0 <= value <= MAX_COUNT and value == int(value):
            return int(value)
    return None


def number(attributes: Attributes, *keys: str) -> float | None:
    """The first of `keys` that holds a finite number of at least 0 and at most `MAX_SECONDS`."""
    for key in keys:
        value = attributes.get(key)
        if value is None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isfinite(value) and 0 <= value <= MAX_SECONDS:
            return float(value)
    return None


def seconds_as_ns(attributes: Attributes, *keys: str) -> int | None:
    """A duration given in seconds, in nanoseconds."""
    value = number(attributes, *keys)
    return None if value is None else round(value * 1_000_000_000)


def flag(attributes: Attributes, *keys: str) -> bool:
    """Whether the first of `keys` that is set is true; the string `"true"` counts, as some SDKs send it."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value is True or value == "true"
    return False
