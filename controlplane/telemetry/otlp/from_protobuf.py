"""ExportTraceServiceRequest in protobuf: taken apart by hand down to its spans, each of which upb reads by itself."""

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from controlplane.telemetry.spans import Event, Span

from .any_value import attributes
from .faults import LATEST_NS, MAX_SPAN_BYTES, TOO_LARGE, fault
from .malformed import Malformed
from .scan import Scanner, Unusual
from .wire import count, fields

_Message = TypeVar("_Message", bound=Message)
_NO_PARENT = bytes(8)
_TRACE_ID = b"\x0a\x10"  # how a span begins, as everybody writes it: field 1, 16 bytes
_scanner = Scanner()


def check(body: bytes) -> Counter[str]:
    rejected: Counter[str] = Counter()
    for start, end, _, _ in walk(body):
        if end - start > MAX_SPAN_BYTES:
            rejected[TOO_LARGE] += 1
            continue
        span = _parse(WireSpan, body[start:end])
        if reason := fault(
            span.trace_id, span.span_id, span.parent_span_id, span.start_time_unix_nano, span.end_time_unix_nano
        ):
            rejected[reason] += 1
    return rejected


def spans(body: bytes, shard: int = 0, shards: int = 1) -> Iterator[tuple[Span, int]]:
    scanner = _scanner
    for start, end, service, scope in walk(body):
        size = end - start
        if size > MAX_SPAN_BYTES:
            continue
        if shards > 1 and body[start : start + 2] == _TRACE_ID and body[start + 17] % shards != shard:
            continue  # another's, told without reading it
        try:
            span = scanner.span(body, start, end, service, scope)
        except Unusual:
            span = span_of(_parse(WireSpan, body[start:end]), service, scope)
        if not fault(span.trace_id, span.span_id, span.parent_id, span.start_ns, span.end_ns):
            yield span if span.end_ns >= span.start_ns else span._replace(end_ns=span.start_ns), size


def count_log_records(body: bytes) -> int:
    return count(body, 1, 2, 2)


def walk(body: bytes) -> Iterator[tuple[int, int, str, str]]:
    """Where each span lies in the body, with the service and the scope it belongs to. Raises Malformed."""
    for resource in _inner(body, (0, len(body)), 1):
        service = _service(_head(Resource, body, resource))
        for scope in _inner(body, resource, 2):
            name = _head(InstrumentationScope, body, scope).name
            for start, end in _inner(body, scope, 2):
                yield start, end, service, name


def _inner(body: bytes, outer: tuple[int, int], wanted: int) -> Iterator[tuple[int, int]]:
    return ((start, end) for number, start, end in fields(body, *outer) if number == wanted)


def _head(kind: type[_Message], body: bytes, outer: tuple[int, int]) -> _Message:
    """Field 1 of ResourceSpans or ScopeSpans: wherever it stands among the others, merged where it stands twice."""
    head = bytearray()
    for start, end in _inner(body, outer, 1):
        head += body[start:end]
        if len(head) > MAX_SPAN_BYTES:
            raise Malformed(f"a resource or scope is larger than {MAX_SPAN_BYTES} bytes")
    return _parse(kind, bytes(head))


def _parse(kind: type[_Message], data: bytes) -> _Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise Malformed(f"the body is not protobuf: a {kind.DESCRIPTOR.name} that cannot be read") from error


def _service(resource: Resource) -> str:
    service = ""
    for pair in resource.attributes:
        if pair.key == "service.name":
            service = pair.value.string_value
    return service


def span_of(span: WireSpan, service: str, scope: str) -> Span:
    """As `scan.Scanner.span`, of whatever the parser takes."""
    trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_span_id
    start_ns, end_ns = span.start_time_unix_nano, span.end_time_unix_nano
    kind, status = span.kind, span.status.code
    return Span(
        trace_id,
        span_id,
        b"" if parent_id == _NO_PARENT else parent_id,
        span.name,
        kind if 0 <= kind <= 5 else 0,
        start_ns,
        end_ns,
        status if 0 <= status <= 2 else 0,
        service,
        scope,
        attributes(span.attributes),
        tuple(
            [
                Event(min(event.time_unix_nano, LATEST_NS - 1), event.name, attributes(event.attributes))
                for event in span.events
            ]
        ),
    )
