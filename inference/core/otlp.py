"""Encodes OTLP spans as protobuf bytes (opentelemetry/proto/trace/v1/trace.proto).

A gateway writes the same few spans again and again, so the parts that repeat are encoded once and kept (here and in
`inference.observability.spans`).
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from inference.core.protobuf import field as _field
from inference.core.protobuf import varint

Scalar = str | int | float | bool
Value = Scalar | tuple[str, ...]

INTERNAL, SERVER, CLIENT = 1, 2, 3
ERROR = 2

_double = struct.Struct("<d")
_fixed64 = struct.Struct("<Q")


def _any_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, str):
        return _field(0x0A, value.encode("utf-8", "replace"))
    if isinstance(value, int):
        return b"\x18" + varint(value & 0xFFFFFFFFFFFFFFFF)
    if isinstance(value, float):
        return b"\x21" + _double.pack(value)
    return _field(0x2A, b"".join(_field(0x0A, _any_value(item)) for item in value))


@lru_cache(maxsize=256)
def _key(key: str) -> bytes:
    return _field(0x0A, key.encode())


def key_value(key: str, value: Value) -> bytes:
    """One KeyValue message."""
    return _key(key) + _field(0x12, _any_value(value))


def attribute(key: str, value: Value) -> bytes:
    """A span's attribute."""
    return _field(0x4A, key_value(key, value))


def integers(key: str) -> Callable[[int], bytes]:
    """What encodes span attributes with this key and integers from 0 up."""
    heads = [attribute(key, 1 << 7 * size)[: -size - 1] for size in range(10)]

    def encode(value: int) -> bytes:
        raw = varint(value)
        return heads[len(raw) - 1] + raw

    return encode


def doubles(key: str) -> Callable[[float], bytes]:
    """What encodes span attributes with this key and floats."""
    head = attribute(key, 0.0)[:-8]
    return lambda value: head + _double.pack(value)


def event(time_ns: int, name: str) -> bytes:
    return _field(0x5A, b"\x09" + _fixed64.pack(time_ns) + _field(0x12, name.encode()))


def link(trace_id: bytes, span_id: bytes) -> bytes:
    return _field(0x6A, _field(0x0A, trace_id) + _field(0x12, span_id))


_ids = struct.Struct("2s16s2s8s2s8s")
_IDS_BYTES = 38
_times = struct.Struct("<BQBQ")


@lru_cache(maxsize=1024)
def _name_and_kind(name: str, kind: int) -> bytes:
    return _field(0x2A, name.encode()) + bytes((0x30, kind))


def span(
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    name: str,
    kind: int,
    start_ns: int,
    end_ns: int,
    rest: bytes = b"",
    *,
    error: str | None = None,
) -> bytes:
    """One span as the field of a ScopeSpans. Times are nanoseconds since the epoch; `rest` is attributes, events and
    links, encoded.
    """
    if parent_id:
        ids = _ids.pack(b"\x0a\x10", trace_id, b"\x12\x08", span_id, b"\x22\x08", parent_id)
    else:
        ids = b"\x0a\x10" + trace_id + b"\x12\x08" + span_id
    body = ids + _name_and_kind(name, kind) + _times.pack(0x39, start_ns, 0x41, end_ns) + rest
    if error is not None:
        body += _field(0x7A, _field(0x12, error.encode("utf-8", "replace")) + bytes((0x18, ERROR)))
    return _field(0x12, body)


class Shape(NamedTuple):
    """What spans with the same name, kind and attributes have in common: the bytes before their ids, between these and their
    times, and after them.
    """

    head: bytes
    name: bytes
    rest: bytes


@lru_cache(maxsize=4096)
def shape(name: str, kind: int, rest: bytes) -> Shape:
    """Of spans that have a parent, and no error."""
    name_and_kind = _name_and_kind(name, kind)
    size = _IDS_BYTES + len(name_and_kind) + _times.size + len(rest)
    return Shape(b"\x12" + varint(size) + b"\x0a\x10", name_and_kind, rest)


def shaped(of: Shape, trace_id: bytes, span_id: bytes, parent_id: bytes, start_ns: int, end_ns: int) -> bytes:
    """As `span` encodes it."""
    head, name, rest = of
    times = _times.pack(0x39, start_ns, 0x41, end_ns)
    return b"".join((head, trace_id, b"\x12\x08", span_id, b"\x22\x08", parent_id, name, times, rest))


def request(spans: Iterable[bytes], scope: str, resource: Sequence[tuple[str, Value]]) -> bytes:
    """An ExportTraceServiceRequest."""
    resource_field = _field(0x0A, b"".join(_field(0x0A, key_value(key, value)) for key, value in resource))
    scope_spans = _field(0x12, _field(0x0A, _field(0x0A, scope.encode())) + b"".join(spans))
    return _field(0x0A, resource_field + scope_spans)
