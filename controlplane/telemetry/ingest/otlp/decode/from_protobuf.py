"""Reads an ExportTraceServiceRequest in protobuf with the compiled kernel, or span by span with upb where the kernel gives up."""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from controlplane.telemetry.core.spans import Event, Span

from . import scan
from .any_value import attributes
from .columnar import Listed, Spans
from .groups import Group, group
from .links import links
from .malformed import MalformedError
from .span_faults import ANY, LATEST_NS, MAX_SPAN_BYTES, TOO_LARGE, Bounds, fault
from .wire import fields

_Message = TypeVar("_Message", bound=Message)
_Place = tuple[int, int, Group]
_NO_PARENT = bytes(8)
_LISTED_AT_ONCE = 2_000


def check(body: bytes, within: Bounds = ANY) -> Counter[str]:
    rejected: Counter[str] = Counter()
    layout = scan.layout_of(body)
    if layout is None:
        _check(body, walk(body), within, rejected)
        return rejected
    groups = _groups(body, layout)
    for first, last in scan.chunks(layout):
        faults = scan.judge(body, layout, first, last, within)
        if faults is None:
            _check(body, _places(layout, first, last, groups), within, rejected)
        else:
            rejected.update(faults)
    return rejected


def read(body: bytes, shard: int = 0, shards: int = 1, within: Bounds = ANY) -> Iterator[Spans]:
    layout = scan.layout_of(body)
    if layout is None:
        yield from _listed(body, walk(body), shard, shards, within)
        return
    groups = _groups(body, layout)
    for first, last in scan.chunks(layout):
        scanned = scan.scan(body, layout, first, last, groups, shard, shards, within)
        if scanned is None:
            yield from _listed(body, _places(layout, first, last, groups), shard, shards, within)
        elif len(scanned):
            yield scanned


def _check(body: bytes, places: Iterator[_Place], within: Bounds, rejected: Counter[str]) -> None:
    for start, end, _ in places:
        if end - start > MAX_SPAN_BYTES:
            rejected[TOO_LARGE] += 1
            continue
        span = _parse(WireSpan, body[start:end])
        if reason := fault(
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            within,
        ):
            rejected[reason] += 1


def _listed(body: bytes, places: Iterator[_Place], shard: int, shards: int, within: Bounds) -> Iterator[Spans]:
    some: list[tuple[Span, int]] = []
    for start, end, common in places:
        if end - start > MAX_SPAN_BYTES:
            continue
        span = span_of(_parse(WireSpan, body[start:end]), common)
        if fault(span.trace_id, span.span_id, span.parent_id, span.start_ns, span.end_ns, within):
            continue
        if span.trace_id[15] % shards == shard:
            some.append((span if span.end_ns >= span.start_ns else span._replace(end_ns=span.start_ns), end - start))
        if len(some) == _LISTED_AT_ONCE:
            yield Listed(some)
            some = []
    if some:
        yield Listed(some)


def _places(layout: scan.Layout, first: int, last: int, groups: list[Group]) -> Iterator[_Place]:
    return ((start, end, groups[number]) for start, end, number in layout.places[:, first:last].T.tolist())


def _groups(body: bytes, layout: scan.Layout) -> list[Group]:
    """Raises MalformedError."""
    groups = []
    for resource_at, resource_end, scope_at, scope_end in layout.groups.tolist():
        if max(resource_end - resource_at, scope_end - scope_at) > MAX_SPAN_BYTES:
            raise _too_large()
        groups.append(_group_in(body[resource_at:resource_end], body[scope_at:scope_end]))
    return groups


@lru_cache(256)
def _group_in(resource: bytes, scope: bytes) -> Group:
    return group(attributes(_parse(Resource, resource).attributes), str(_parse(InstrumentationScope, scope).name))


def walk(body: bytes) -> Iterator[_Place]:
    """Where each span lies in the body, with its group. Raises MalformedError."""
    for resource in _inner(body, (0, len(body)), 1):
        common = attributes(_head(Resource, body, resource).attributes)
        for scope in _inner(body, resource, 2):
            own = group(common, _head(InstrumentationScope, body, scope).name)
            for start, end in _inner(body, scope, 2):
                yield start, end, own


def _inner(body: bytes, outer: tuple[int, int], wanted: int) -> Iterator[tuple[int, int]]:
    return ((start, end) for number, start, end in fields(body, *outer) if number == wanted)


def _head(kind: type[_Message], body: bytes, outer: tuple[int, int]) -> _Message:
    """Field 1 of ResourceSpans or ScopeSpans, at any place among the fields, merged where there are several."""
    head = bytearray()
    for start, end in _inner(body, outer, 1):
        head += body[start:end]
        if len(head) > MAX_SPAN_BYTES:
            raise _too_large()
    return _parse(kind, bytes(head))


def _too_large() -> MalformedError:
    return MalformedError(f"a resource or scope is larger than {MAX_SPAN_BYTES} bytes")


def _parse(kind: type[_Message], data: bytes) -> _Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise MalformedError(f"the body is not protobuf: a {kind.DESCRIPTOR.name} that cannot be read") from error


def span_of(span: WireSpan, common: Group) -> Span:
    """The parser's span as a value, valid or not."""
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
        common.service,
        common.scope,
        attributes(span.attributes),
        tuple(
            [
                Event(min(event.time_unix_nano, LATEST_NS - 1), event.name, attributes(event.attributes))
                for event in span.events
            ]
        ),
        span.status.message,
        common.resource,
        links(span),
    )
