"""Encodes OTLP spans as protobuf bytes (opentelemetry/proto/trace/v1/trace.proto).

A gateway writes the same few spans again and again, so the parts that repeat are encoded once and kept (here and in
`inference.observability.spans`).
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

Scalar = str | int | float | bool
Value = Scalar | tuple[str, ...]

INTERNAL, SERVER, CLIENT = 1, 2, 3
ERROR = 2

_double = struct.Struct("<d")
_fixed64 = struct.Struct("<Q")


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: int, payload: bytes) -> bytes:
    """A length-delimited field; `tag` is the field's number and wire type 2."""
    return bytes((tag,)) + varint(len(payload)) + payload


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


def event(time_ns: int, name: str) -> bytes:
    return _field(0x5A, b"\x09" + _fixed64.pack(time_ns) + _field(0x12, name.encode()))


def link(trace_id: bytes, span_id: bytes) -> bytes:
    return _field(0x6A, _field(0x0A, trace_id) + _field(0x12, span_id))


_ids = struct.Struct("2s16s2s8s2s8s")
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


def request(spans: Iterable[bytes], scope: str, resource: Sequence[tuple[str, Value]]) -> bytes:
    """An ExportTraceServiceRequest."""
    resource_field = _field(0x0A, b"".join(_field(0x0A, key_value(key, value)) for key, value in resource))
    scope_spans = _field(0x12, _field(0x0A, _field(0x0A, scope.encode())) + b"".join(spans))
    return _field(0x0A, resource_field + scope_spans)
