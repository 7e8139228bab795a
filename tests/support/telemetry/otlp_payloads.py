"""OTLP requests with spans."""

import os
import time
from collections import defaultdict
from collections.abc import Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.row import LedgerRow

MS = 1_000_000


def spans_in(body: bytes, shard: int = 0, shards: int = 1) -> list[Span]:
    """The body's spans as the pipeline reads them."""
    return [
        span for spans in export_request.read(body, shard, shards) for part in spans.parts() for span in spans.of(part)
    ]


def rows_in(bodies: Iterable[bytes]) -> list[LedgerRow]:
    """What the ledger makes of all their traces."""
    traces = defaultdict[str, list[Span]](list)
    for body in bodies:
        for span in spans_in(body):
            traces[span.trace_id].append(span)
    return [row for spans in traces.values() for row in close(spans)]


def request(spans: int = 1, *, traces: int = 1, trace_ids: list[bytes] | None = None) -> ExportTraceServiceRequest:
    """`traces` new traces, each a root SERVER span with children, with `spans` spans in all."""
    made = ExportTraceServiceRequest()
    resource = made.resource_spans.add()
    resource.resource.attributes.append(pair("service.name", "checkout"))
    scope = resource.scope_spans.add()
    scope.scope.name = "tests"
    now = time.time_ns()
    for trace_id in trace_ids or [os.urandom(16) for _ in range(traces)]:
        root = os.urandom(8)
        for number in range(max(1, spans // traces)):
            scope.spans.add(
                trace_id=trace_id,
                span_id=os.urandom(8) if number else root,
                parent_span_id=root if number else b"",
                name="work" if number else "POST /v1/chat/completions",
                kind=1 if number else 2,
                start_time_unix_nano=now - 100 * MS + number * MS,
                end_time_unix_nano=now if not number else now - 50 * MS,
                attributes=[pair("http.response.status_code", 200), pair("gen_ai.request.model", "chat-small")],
            )
    return made


def pair(key: str, value: object) -> KeyValue:
    match value:
        case bool():
            return KeyValue(key=key, value=AnyValue(bool_value=value))
        case int():
            return KeyValue(key=key, value=AnyValue(int_value=value))
        case float():
            return KeyValue(key=key, value=AnyValue(double_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=str(value)))
