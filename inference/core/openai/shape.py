"""Bounds the work of reading a body before it is read."""

from typing import NamedTuple

from inference.core.openai import errors

_LONG_BYTES = 64 << 10
_SHORT_BYTES = 8 << 10
_MANY = 1024
MAX_STRINGS = 65_536
MAX_CONTAINERS = 65_536
MAX_VALUES = 262_144
BYTES_PER_TOKEN = 64
"""More bytes than these, for each token that a model takes, are no prompt for it, whatever its tokenizer."""


_PART_BYTES = 32 << 10
"""Looked at in one call of the C library, about a millisecond: other threads wait for no more than that."""


class Shape(NamedTuple):
    """`text_bytes` are those of all strings, as they stand in the body. `has_data`: images or such are among them."""

    text_bytes: int
    has_data: bool


def takes_long(body: bytes) -> bool:
    """Whether to read it may take more than a millisecond or two, for its length or for what it has of lists, objects and values."""
    if len(body) <= _SHORT_BYTES:
        return False
    return len(body) > _LONG_BYTES or body.count(b"{") + body.count(b"[") + body.count(b",") // 8 > _MANY


def check_shape(body: bytes) -> Shape:
    """For a thread of its own. Raises ApiError where reading the body would hold up other requests. Counts what JSON says, and not
    what texts contain.
    """
    quotes = containers = commas = outside_bytes = 0
    inside = escaped = False  # where the part begins: in a string, after a backslash
    for start in range(0, len(body), _PART_BYTES):
        part = body[start + escaped : start + _PART_BYTES]
        escaped = (len(part) - len(part.rstrip(b"\\"))) % 2 == 1
        between = part.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(between[inside::2])
        inside ^= len(between) % 2 == 0
        quotes += len(between) - 1
        containers += outside.count(b"[") + outside.count(b"{")
        commas += outside.count(b",")
        outside_bytes += len(outside)
        _within("strings", quotes // 2, MAX_STRINGS)
        _within("lists and objects", containers, MAX_CONTAINERS)
        _within("values", commas, MAX_VALUES)
    return Shape(len(body) - outside_bytes, b'"data:' in body)


def check_length(shape: Shape, max_prompt_tokens: int, param: str) -> None:
    """Raises ApiError where the texts are far too long for the model, before anything is done to them."""
    if not shape.has_data and shape.text_bytes > BYTES_PER_TOKEN * max_prompt_tokens:
        raise errors.context_length(shape.text_bytes // BYTES_PER_TOKEN, max_prompt_tokens, param)


def _within(what: str, number: int, most: int) -> None:
    if number > most:
        raise errors.invalid(f"The body has more than {most:,} {what}: send less.", code="body_too_complex")
