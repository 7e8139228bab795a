"""Decodes OTLP requests: spans for the pipeline, counts for the answer to the sender.

`read` reads everything that `check` accepts, so a body that was acknowledged never fails later.
"""

from collections import Counter
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from controlplane.telemetry.ingest.spool.frame import Kind

from . import from_json, from_protobuf
from .columnar import Spans
from .malformed import MalformedError
from .span_faults import ANY, Bounds, bounds

Rejected = Counter[str]
"""How many spans were refused, by reason."""

_EXAMPLE = ExportTraceServiceRequest(
    resource_spans=[
        ResourceSpans(
            scope_spans=[
                ScopeSpans(
                    spans=[Span(trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=1, end_time_unix_nano=2)]
                )
            ]
        )
    ]
).SerializeToString()

__all__ = ["MalformedError", "Rejected", "Spans", "bounds", "check", "read"]


def prepare() -> None:
    """Compile the kernel before the first request. It takes seconds the first time on a machine."""
    check(Kind.TRACES_PROTOBUF, _EXAMPLE)
    for spans in read(Kind.TRACES_PROTOBUF, _EXAMPLE):
        spans.table(), spans.parts()


def check(kind: Kind, body: bytes, within: Bounds = ANY) -> Rejected:
    """Counts of the spans that are refused. Raises MalformedError where the body as a whole cannot be read."""
    return from_protobuf.check(body, within) if kind is Kind.TRACES_PROTOBUF else from_json.check(body, within)


def read(kind: int, body: bytes, shard: int = 0, shards: int = 1, within: Bounds = ANY) -> Iterator[Spans]:
    """The body's spans without those that `check` refuses, some thousand at a time: only the traces of one shard.

    The last byte of a trace id modulo `shards` is its shard. `within` must be the same as for `check`. Raises MalformedError as `check`.
    """
    reader = from_protobuf.read if kind == Kind.TRACES_PROTOBUF else from_json.read
    return reader(body, shard, shards, within)
