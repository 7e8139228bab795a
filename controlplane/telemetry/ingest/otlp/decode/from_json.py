"""Reads OTLP/JSON: protobuf's JSON mapping with hex ids, integer enums and lowerCamelCase. Unknown fields are ignored.

It parses into typed structs and not into a generic document: a wrong type is refused while parsing, and unknown fields use no memory.
"""

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from controlplane.telemetry.core.spans import AttrValue, Event, Link, Span

from .columnar import Spans, listed, reasons
from .groups import Group, group
from .links import SPAN_ID_BYTES, TRACE_ID_BYTES
from .malformed import MalformedError
from .span_faults import ANY, LATEST_NS, TOO_LARGE, Bounds, fault
from .wire import MAX_MESSAGE_BYTES

T = TypeVar("T")
Integer = int | str | None
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NO_PARENT = bytes(8)


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """A message. A JSON `null` is a field that is not set."""


class ArrayValue(_Struct):
    values: list["AnyValue | None"] | None = None


class KeyValueList(_Struct):
    values: list["KeyValue"] | None = None


class AnyValue(_Struct):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Integer = None
    double_value: float | str | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None
    bytes_value: str | None = None


class KeyValue(_Struct):
    key: str | None = None
    value: AnyValue | None = None


class WireEvent(_Struct):
    time_unix_nano: Integer = None
    name: str | None = None
    attributes: list[KeyValue] | None = None


class Status(_Struct):
    code: int | None = None
    message: str | None = None


class WireLink(_Struct):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[KeyValue] | None = None


class WireSpan(_Struct):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | None = None
    start_time_unix_nano: Integer = None
    end_time_unix_nano: Integer = None
    attributes: list[KeyValue] | None = None
    events: list[WireEvent] | None = None
    status: Status | None = None
    links: list[WireLink] | None = None


class Scope(_Struct):
    name: str | None = None


class ScopeSpans(_Struct):
    scope: Scope | None = None
    spans: list[msgspec.Raw] | None = None  # parsed one at a time


class Resource(_Struct):
    attributes: list[KeyValue] | None = None


class ResourceSpans(_Struct):
    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None


class TracesRequest(_Struct):
    resource_spans: list[ResourceSpans] | None = None


_traces = msgspec.json.Decoder(TracesRequest)
_one_span = msgspec.json.Decoder(WireSpan)


def check(body: bytes, within: Bounds = ANY) -> Counter[str]:
    return reasons(_judged(body, within))


def read(body: bytes, shard: int = 0, shards: int = 1, within: Bounds = ANY) -> Iterator[Spans]:
    return listed(_judged(body, within), shard, shards)


MAX_DEPTH = 48
"""Nested lists and maps in an attribute. Protobuf's parser has the same limit."""
MAX_OBJECTS = 2**20
"""JSON objects in one body. The smallest has two bytes and takes some hundred bytes of memory."""


def _parse(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"the body is not OTLP/JSON: {error}") from error


def _judged(body: bytes, within: Bounds) -> Iterator[tuple[Span | str, int]]:
    """Each span, or why it is refused, with its size in the body."""
    if body.count(b"{") > MAX_OBJECTS:
        raise MalformedError(f"the body holds more than {MAX_OBJECTS} JSON objects: send smaller batches, or protobuf")
    for resource in _parse(_traces, body).resource_spans or ():
        common = group(_attributes(resource.resource.attributes if resource.resource else None))
        for scope in resource.scope_spans or ():
            own = common._replace(scope=(scope.scope and scope.scope.name) or "")
            for span in scope.spans or ():
                size = len(memoryview(span))
                if size > MAX_MESSAGE_BYTES:
                    yield TOO_LARGE, size
                else:
                    yield _span(_parse(_one_span, span), own, within), size


def _span(span: WireSpan, common: Group, within: Bounds) -> Span | str:
    trace_id, span_id, parent_id = _bytes(span.trace_id), _bytes(span.span_id), _bytes(span.parent_span_id)
    start_ns, end_ns = _uint64(span.start_time_unix_nano), _uint64(span.end_time_unix_nano)
    attributes = _attributes(span.attributes)  # also of a refused span: a wrong type in it makes the body malformed
    events = tuple(
        [
            Event(min(_uint64(event.time_unix_nano), LATEST_NS - 1), event.name or "", _attributes(event.attributes))
            for event in span.events or ()
        ]
    )
    links = tuple([_link(link) for link in span.links or ()])
    if reason := fault(trace_id, span_id, parent_id, start_ns, end_ns, within):
        return reason
    kind, status = span.kind or 0, (span.status and span.status.code) or 0
    return Span(
        trace_id,
        span_id,
        b"" if parent_id == _NO_PARENT else parent_id,
        span.name or "",
        kind if 0 <= kind <= 5 else 0,
        start_ns,
        max(start_ns, end_ns),
        status if 0 <= status <= 2 else 0,
        common.service,
        common.scope,
        attributes,
        events,
        (span.status and span.status.message) or "",
        common.resource,
        tuple([link for link in links if len(link.trace_id) == TRACE_ID_BYTES and len(link.span_id) == SPAN_ID_BYTES]),
    )


def _link(link: WireLink) -> Link:
    return Link(_bytes(link.trace_id), _bytes(link.span_id), _attributes(link.attributes))


def _attributes(pairs: list[KeyValue] | None) -> dict[str, AttrValue]:
    return {pair.key or "": _value(pair.value) for pair in pairs or ()}


def _value(value: AnyValue | None, depth: int = 0) -> AttrValue:
    """As `any_value.value_of`, with a bound on the depth, which protobuf's parser has itself."""
    if value is None:
        return ""
    if depth > MAX_DEPTH:
        raise MalformedError(
            f"the body is not OTLP/JSON that is taken: an attribute nests more than {MAX_DEPTH} lists or maps"
        )
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _integer(value.int_value, -(2**63), 2**63 - 1)
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.array_value is not None:
        return tuple([_value(item, depth + 1) for item in value.array_value.values or ()])
    if value.kvlist_value is not None:
        return tuple([(pair.key or "", _value(pair.value, depth + 1)) for pair in value.kvlist_value.values or ()])
    if value.bytes_value is not None:
        return _base64(value.bytes_value)
    return ""


def _bytes(text: str | None) -> bytes:
    """An id from its hex digits. Text that is not hex becomes an id of the wrong length, which is refused."""
    return bytes.fromhex(text) if text and _HEX.fullmatch(text) else (b"" if not text else b"?")


def _uint64(value: Integer) -> int:
    return _integer(value, 0, 2**64 - 1) if value is not None else 0


def _integer(value: int | str, low: int, high: int) -> int:
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise MalformedError("the body is not OTLP/JSON: a 64-bit integer is not written in decimal digits")
        value = int(value)
    if not low <= value <= high:
        raise MalformedError("the body is not OTLP/JSON: an integer does not fit 64 bits")
    return value


def _double(value: float | str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise MalformedError("the body is not OTLP/JSON: a doubleValue is not a number") from error


def _base64(value: str) -> str:
    try:
        return b64encode(b64decode(value.replace("-", "+").replace("_", "/"), validate=True)).decode()
    except ValueError as error:
        raise MalformedError("the body is not OTLP/JSON: a bytesValue is not base64") from error
