"""Spans that Triton put into a new trace move into the caller's trace, from JSON and from protobuf."""

import os
from collections.abc import Iterable

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.core.spans import SERVER, AttrValue, Caller, Span
from controlplane.telemetry.ingest.otlp.decode import export_request, scan
from controlplane.telemetry.ingest.otlp.decode.columnar import Scanned
from controlplane.telemetry.ingest.otlp.rejoin import MAX_LOST_TRACES, LostTraces, named_caller
from controlplane.telemetry.store.write.arrow_columns import table_spans
from tests.support.telemetry.otlp_payloads import pair

CALLER = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
CALL = bytes.fromhex("00f067aa0ba902b7")
OWN = bytes(15) + b"\x07"
NAMED = f"00-{CALLER.hex()}-{CALL.hex()}-01"


def span(name: str, span_id: int, parent_id: int = 0, trace_id: bytes = OWN, **attributes: str) -> Span:
    named: dict[str, AttrValue] = {f"triton.{key}": value for key, value in attributes.items()}
    parent = parent_id.to_bytes(8, "big") if parent_id else b""
    return Span(
        trace_id,
        span_id.to_bytes(8, "big"),
        parent,
        name,
        SERVER,
        1,
        2,
        0,
        "triton",
        "",
        named,
        resource={"service.name": "triton"},
    )


def triton_request(request_id: str, trace_id: bytes = OWN) -> list[Span]:
    return [
        span("compute", 3, 2, trace_id),
        span("chat_small", 2, 1, trace_id, model_name="chat_small", request_id=request_id),
        span("InferRequest", 1, 0, trace_id),
    ]


def as_protobuf(spans: Iterable[Span]) -> bytes:
    made = ExportTraceServiceRequest()
    resource = made.resource_spans.add()
    resource.resource.attributes.append(pair("service.name", "triton"))
    scope = resource.scope_spans.add()
    for span in spans:
        scope.spans.add(
            trace_id=span.trace_id, span_id=span.span_id, parent_span_id=span.parent_id, name=span.name, kind=SERVER,
            start_time_unix_nano=span.start_ns, end_time_unix_nano=span.end_ns,
            attributes=[pair(*item) for item in span.attributes.items()],
        )  # fmt: skip
    return made.SerializeToString()


UNKNOWN = b"\x3a\x00"
"""A field that the kernel leaves to the parser."""


def rejoined(more: bytes, spans: Iterable[Span], lost: LostTraces) -> list[Span]:
    """The spans of one export in their callers' traces, as the ledger and as the store get them."""
    values, columns = list[Span](), list[Span]()
    for read in export_request.read(as_protobuf(spans) + more):
        lost.learn(read.named_callers())
        read.move(lost)
        columns += table_spans(read.table())
        for part in read.parts():
            assert {one.trace_id for one in read.of(part)} == {part.trace_id}
            values += read.of(part)
    assert sorted(values) == sorted(columns)
    return values


BOTH = pytest.mark.parametrize("more", [b"", UNKNOWN], ids=["kernel", "parser"])


@BOTH
def test_it_moves_all_of_a_lost_request_under_the_call_it_names(more: bytes) -> None:
    moved = {one.name: one for one in rejoined(more, triton_request(NAMED), LostTraces())}
    assert {one.trace_id for one in moved.values()} == {CALLER}
    assert moved["InferRequest"].parent_id == CALL
    assert moved["chat_small"].parent_id == (1).to_bytes(8, "big")
    assert moved["compute"].parent_id == (2).to_bytes(8, "big")


@BOTH
def test_it_leaves_spans_that_are_where_they_belong(more: bytes) -> None:
    spans = triton_request(NAMED, CALLER)
    assert sorted(rejoined(more, spans, LostTraces())) == sorted(spans)


@BOTH
def test_it_leaves_other_traces_of_the_same_export_alone(more: bytes) -> None:
    other = triton_request("7", OWN[:8] + os.urandom(8))
    found = rejoined(more, [*triton_request(NAMED), *other], LostTraces())
    assert sorted(one for one in found if one.trace_id != CALLER) == sorted(other)
    assert len(found) == 6


@BOTH
@pytest.mark.parametrize(
    "said",
    [
        "",
        "abc",
        f"00-{'0' * 32}-{CALL.hex()}-01",
        f"00-{CALLER.hex()}-{'0' * 16}-01",
        f"x0-{CALLER.hex()}-{CALL.hex()}-01",
        f"{NAMED} ",
    ],
)
def test_it_believes_only_a_whole_traceparent(more: bytes, said: str) -> None:
    spans = triton_request(said)
    assert sorted(rejoined(more, spans, LostTraces())) == sorted(spans)


@BOTH
def test_it_remembers_a_lost_trace_for_the_spans_that_end_later(more: bytes) -> None:
    lost = LostTraces()
    *inner, outer = triton_request(NAMED)
    rejoined(more, inner, lost)
    [moved] = rejoined(more, [outer], lost)
    assert (moved.trace_id, moved.parent_id) == (CALLER, CALL)


def test_protobuf_is_rejoined_without_the_parser() -> None:
    [read] = export_request.read(as_protobuf(triton_request(NAMED)))
    assert isinstance(read, Scanned)
    assert read.named_callers() == {OWN: Caller(CALLER, CALL)}
    assert scan.layout_of(as_protobuf(triton_request(NAMED))) is not None


def test_a_number_is_no_home() -> None:
    assert named_caller(OWN, 55) is None and named_caller(OWN, None) is None
    assert named_caller(OWN, NAMED) == Caller(CALLER, CALL)


def test_it_says_once_that_a_trace_is_lost() -> None:
    lost, named = LostTraces(), {OWN: Caller(CALLER, CALL)}
    assert lost.learn(named) == named
    assert lost.learn(named) == {}


def test_it_remembers_only_so_many_and_the_newest() -> None:
    lost = LostTraces()
    ids = [number.to_bytes(16, "little") for number in range(1, MAX_LOST_TRACES + 11)]
    for trace_id in ids:
        lost.learn({trace_id: Caller(CALLER, CALL)})
    assert len(lost) == MAX_LOST_TRACES
    assert lost.get(ids[0]) is None and lost.get(ids[-1]) == Caller(CALLER, CALL)
