"""Walks protobuf's wire format, so that a body can be parsed span by span.

A protobuf parser turns two bytes on the wire into some hundred in memory (an empty span), so a hostile body of 64 MiB would take
gigabytes. Parsed span by span, a body takes the memory of its largest span.
https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from .malformed import MalformedError

MAX_MESSAGE_BYTES = 4 * 2**20
"""One span, metric, resource or scope. Its objects in memory may take fifty times as much."""
_FIXED = {1: 8, 5: 4}
T = TypeVar("T")
_Message = TypeVar("_Message", bound=Message)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The value at `at` and where it ends. Raises IndexError past the end of `data`, MalformedError over ten bytes."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise MalformedError("the body is not protobuf: a varint of more than ten bytes")


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The length-delimited fields of the message in `data[start:end]`: (number, start, end). Skips others. Raises MalformedError."""
    at = start
    try:
        while at < end:
            tag, at = varint(data, at)
            kind = tag & 7
            if not 0 < tag >> 3 < 2**29:
                raise MalformedError("the body is not protobuf: a field without a number")
            if kind == 2:
                length, at = varint(data, at)
                if at + length > end:
                    raise MalformedError("the body is not protobuf: a field is longer than what it lies in")
                yield tag >> 3, at, at + length
                at += length
            elif kind == 0:
                _, at = varint(data, at)
            elif kind in _FIXED:
                at += _FIXED[kind]
            else:
                raise MalformedError(f"the body is not protobuf that OTLP uses: wire type {kind}")
    except IndexError:
        raise MalformedError("the body is not protobuf: it ends within a field") from None
    if at != end:
        raise MalformedError("the body is not protobuf: a field is longer than what it lies in")


def count(data: bytes, *path: int | frozenset[int]) -> int:
    """How many fields lie at the end of a path of field numbers (or sets of them) through nested messages. Raises MalformedError."""
    return _count(data, 0, len(data), [step if isinstance(step, frozenset) else frozenset({step}) for step in path])


def _count(data: bytes, start: int, end: int, path: list[frozenset[int]]) -> int:
    first, *rest = path
    total = 0
    for number, field_start, field_end in fields(data, start, end):
        if number in first:
            total += _count(data, field_start, field_end, rest) if rest else 1
    return total


def scopes(body: bytes, common: Callable[[Resource], T]) -> Iterator[tuple[T, str, Iterator[tuple[int, int]]]]:
    """Each scope of an export request: what `common` makes of its resource, its name, and where its spans or metrics lie.

    `common` is called once for each resource, because a body may have millions of scopes. Raises MalformedError.
    """
    for resource in _inner(body, (0, len(body)), 1):
        own = common(_head(Resource, body, resource))
        for scope in _inner(body, resource, 2):
            yield own, _head(InstrumentationScope, body, scope).name, _inner(body, scope, 2)


def _inner(body: bytes, outer: tuple[int, int], wanted: int) -> Iterator[tuple[int, int]]:
    return ((start, end) for number, start, end in fields(body, *outer) if number == wanted)


def _head(kind: type[_Message], body: bytes, outer: tuple[int, int]) -> _Message:
    """Field 1 of a resource's or scope's items, at any place among the fields, merged where there are several."""
    head = bytearray()
    for start, end in _inner(body, outer, 1):
        head += body[start:end]
        if len(head) > MAX_MESSAGE_BYTES:
            raise too_large()
    return parse(kind, bytes(head))


def too_large() -> MalformedError:
    return MalformedError(f"a resource or scope is larger than {MAX_MESSAGE_BYTES} bytes")


def parse(kind: type[_Message], data: bytes) -> _Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise MalformedError(f"the body is not protobuf: a {kind.DESCRIPTOR.name} that cannot be read") from error
