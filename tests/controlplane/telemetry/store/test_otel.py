"""Traces that a collector wrote with its ClickHouse exporter are read as ours are."""

import pytest

from controlplane.telemetry.core.spans import Event, Link, Span
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.dsn import parse_dsn
from controlplane.telemetry.store.write.arrow_columns import span_table
from tests.support.telemetry.samples import NOON_NS, S, span

TRACE = "0123456789abcdef" * 2

# The columns of the exporter's tables that are read, by its names.
TABLES = (
    "CREATE TABLE otel_traces (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,"
    " SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName LowCardinality(String),"
    " ResourceAttributes Map(LowCardinality(String), String), ScopeName String, ScopeVersion String,"
    " SpanAttributes Map(LowCardinality(String), String), Duration UInt64, StatusCode LowCardinality(String), StatusMessage String,"
    " Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),"
    " Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)))"
    " ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))",
    "CREATE TABLE otel_traces_trace_id_ts (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY (TraceId, Start)",
    "CREATE MATERIALIZED VIEW otel_traces_trace_id_ts_mv TO otel_traces_trace_id_ts AS"
    " SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End FROM otel_traces WHERE TraceId != '' GROUP BY TraceId",
)
ROOT = (
    f"(fromUnixTimestamp64Nano({NOON_NS + 5}), '{TRACE}', '00000000000000aa', '', 'llm_request', 'Server', 'vllm', 'scope',"
    " map('gen_ai.usage.input_tokens', '128', 'gen_ai.latency.e2e', '1.5', 'gen_ai.request.stream', 'true',"
    " 'gen_ai.response.finish_reasons', '[\"stop\"]', 'model', 'llama-3', 'odd', '[not json]', 'zip', '007'),"
    f" 1500000000, 'Error', [fromUnixTimestamp64Nano({NOON_NS + 9})], ['first_token'], [map('n', '1')],"
    f" 'out of memory', map('k8s.pod.name', 'vllm-0'), ['{TRACE}'], ['00000000000000cc'], [map('why', 'retry')])"
)
CHILD = (
    f"(fromUnixTimestamp64Nano({NOON_NS + 2 * S}), '{TRACE}', '00000000000000bb', '00000000000000aa', 'GET', 'SPAN_KIND_CLIENT',"
    " 'vllm', '', map(), 7, 'STATUS_CODE_OK', [], [], [], '', map(), [], [], [])"
)


@pytest.fixture
def both(dsn: str) -> Store:
    """A store with its own tables and the exporter's, which hold one trace, its root twice."""
    store = Store(f"{dsn}?otel=otel_traces")
    for statement in TABLES:
        store.command(statement)
    store.command(
        "INSERT INTO otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, ScopeName, SpanAttributes,"
        " Duration, StatusCode, `Events.Timestamp`, `Events.Name`, `Events.Attributes`, StatusMessage, ResourceAttributes,"
        f" `Links.TraceId`, `Links.SpanId`, `Links.Attributes`) VALUES {ROOT}, {CHILD}, {ROOT}"
    )
    return store


def test_a_trace_is_read_with_types_kinds_and_events(both: Store) -> None:
    root, child = both.requests.trace(TRACE)  # by their start, and each once
    assert root == Span(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes(7) + b"\xaa",
        parent_id=b"",
        name="llm_request",
        kind=2,
        start_ns=NOON_NS + 5,
        end_ns=NOON_NS + 5 + 1_500_000_000,
        status_code=2,
        service="vllm",
        scope="scope",
        attributes={
            "gen_ai.usage.input_tokens": 128,
            "gen_ai.latency.e2e": 1.5,
            "gen_ai.request.stream": True,
            "gen_ai.response.finish_reasons": ("stop",),
            "model": "llama-3",
            "odd": "[not json]",
            "zip": "007",
        },
        events=(Event(NOON_NS + 9, "first_token", {"n": 1}),),
        status_message="out of memory",
        resource={"k8s.pod.name": "vllm-0"},
        links=(Link(bytes.fromhex(TRACE), bytes(7) + b"\xcc", {"why": "retry"}),),
    )
    assert (child.kind, child.status_code, child.parent_id) == (3, 1, root.span_id)


def test_our_own_spans_come_first(both: Store) -> None:
    ours = span(1, trace_id=bytes.fromhex(TRACE))
    both.writer.insert_span_columns(span_table([ours]))
    assert both.requests.trace(TRACE) == [ours]


def test_without_a_named_table_nothing_is_asked(store: Store) -> None:
    assert store.requests.trace(TRACE) == []


def test_the_table_may_be_in_another_database_and_is_only_ever_a_name() -> None:
    assert parse_dsn("clickhouse://h/weir?otel=otel.otel_traces").otel == "otel.otel_traces"
    with pytest.raises(StoreInputError, match="not an identifier"):
        parse_dsn("clickhouse://h/weir?otel=x;DROP")
