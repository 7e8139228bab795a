"""Decodes OTLP export requests in protobuf: spans for the pipeline, counts for the answer to the sender.

They are read by the compiled kernel, or span by span with upb where the kernel gives up. `read` reads everything that `check` accepts, so
a body that was acknowledged never fails later.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from controlplane.telemetry.core.spans import Event, Span

from . import scan
from .any_value import attributes
from .columnar import Spans, listed, reasons
from .groups import Group, group
from .links import links
from .malformed import MalformedError
from .span_faults import ANY, LATEST_NS, TOO_LARGE, UNREADABLE, Bounds, bounds, fault
from .wire import MAX_MESSAGE_BYTES, parse, scopes, too_large

_Place = tuple[int, int, Group]
_NO_PARENT = bytes(8)
_MAX_CACHED_BYTES = 16 * 2**10  # of one resource or scope
T = TypeVar("T")
_EXAMPLE = ExportTraceServiceRequest(
    resource_spans=[
        ResourceSpans(
            scope_spans=[
                ScopeSpans(
                    spans=[WireSpan(trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=1, end_time_unix_nano=2)]
                )
            ]
        )
    ]
).SerializeToString()

__all__ = ["MalformedError", "Spans", "bounds", "check", "read"]


def prepare(*, reading: bool) -> None:
    """Compile the kernel before the first request: what `check` needs, and `read` if that is called too.

    It takes seconds the first time on a machine.
    """
    check(_EXAMPLE)
    for spans in read(_EXAMPLE) if reading else ():
        spans.table(), spans.parts()


def check(body: bytes, within: Bounds = ANY) -> Counter[str]:
    """How many spans are refused, by reason. Raises MalformedError where the body as a whole cannot be read."""
    layout = scan.layout_of(body)
    if layout is None:
        return reasons(_judged(body, walk(body), within))
    rejected: Counter[str] = Counter()
    groups = _groups(body, layout)
    for first, last in scan.chunks(layout):
        try:
            faults = scan.judge(body, layout, first, last, within)
        except MalformedError:
            faults = None
        if faults is None:
            faults = reasons(_judged(body, _places(layout, first, last, groups), within))
        rejected.update(faults)
    return rejected


def read(body: bytes, shard: int = 0, shards: int = 1, within: Bounds = ANY) -> Iterator[Spans]:
    """The body's spans without those that `check` refuses, some thousand at a time: only the traces of one shard.

    The last byte of a trace id modulo `shards` is its shard. `within` must be the same as for `check`. Raises MalformedError as `check`.
    """
    layout = scan.layout_of(body)
    if layout is None:
        yield from listed(_judged(body, walk(body), within), shard, shards)
        return
    groups = _groups(body, layout)
    for first, last in scan.chunks(layout):
        try:
            scanned = scan.scan(body, layout, first, last, groups, shard, shards, within)
        except MalformedError:
            scanned = None
        if scanned is None:
            yield from listed(_judged(body, _places(layout, first, last, groups), within), shard, shards)
        elif len(scanned):
            yield scanned


def _judged(body: bytes, places: Iterator[_Place], within: Bounds) -> Iterator[tuple[Span | str, int]]:
    """Each span, or why it is refused, with its size in the body."""
    for start, end, common in places:
        if end - start > MAX_MESSAGE_BYTES:
            yield TOO_LARGE, end - start
            continue
        try:
            span = span_of(parse(WireSpan, body[start:end]), common)
        except MalformedError:
            yield UNREADABLE, end - start
            continue
        reason = fault(span.trace_id, span.span_id, span.parent_id, span.start_ns, span.end_ns, within)
        yield reason or span._replace(end_ns=max(span.start_ns, span.end_ns)), end - start


def _places(layout: scan.Layout, first: int, last: int, groups: list[Group]) -> Iterator[_Place]:
    return ((start, end, groups[number]) for start, end, number in layout.places[:, first:last].T.tolist())


def _groups(body: bytes, layout: scan.Layout) -> list[Group]:
    """Raises MalformedError."""
    groups: list[Group] = []
    known, common = (-1, -1), Group()
    for resource_at, resource_end, scope_at, scope_end in layout.groups.tolist():
        if max(resource_end - resource_at, scope_end - scope_at) > MAX_MESSAGE_BYTES:
            raise too_large()
        if known != (resource_at, resource_end):
            known, common = (resource_at, resource_end), _common_in(body[resource_at:resource_end])
        groups.append(common._replace(scope=_scope_in(body[scope_at:scope_end])))
    return groups


def _cached(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Resources and scopes repeat from body to body. Large ones are not kept, which bounds memory."""
    known = lru_cache(256)(read)
    return lambda data: known(data) if len(data) <= _MAX_CACHED_BYTES else read(data)


@_cached
def _common_in(resource: bytes) -> Group:
    return group(attributes(parse(Resource, resource).attributes))


@_cached
def _scope_in(scope: bytes) -> str:
    return str(parse(InstrumentationScope, scope).name)


def walk(body: bytes) -> Iterator[_Place]:
    """Where each span lies in the body, with its group. Raises MalformedError."""
    for common, scope, places in scopes(body, lambda resource: group(attributes(resource.attributes))):
        own = common._replace(scope=scope)
        for start, end in places:
            yield start, end, own


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
