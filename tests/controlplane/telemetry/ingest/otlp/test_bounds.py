"""Single spans ahead of the receiver's clock, or older than the retention time, are refused in every encoding."""

import json
import time
from collections.abc import Callable

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from controlplane.telemetry.ingest.otlp.decode import export_request, span_faults
from controlplane.telemetry.ingest.otlp.decode.from_json import as_protobuf
from controlplane.telemetry.ingest.otlp.decode.malformed import MalformedError
from controlplane.telemetry.ingest.otlp.decode.span_faults import AHEAD, OLD, bounds
from tests.support.telemetry.otlp_grpc import EXPORT, connected
from tests.support.telemetry.otlp_payloads import MS, request, spans_in
from tests.support.telemetry.process import Running
from tests.support.wait import eventually

DAY_NS = 86_400 * 10**9
NOW_NS = 1_800_000_000 * 10**9
WITHIN = bounds(NOW_NS, 30 * DAY_NS)
MINUTES_NS = 60 * 10**9


def moved(*shifts_ns: tuple[int, int], now_ns: int = NOW_NS) -> ExportTraceServiceRequest:
    """One span for each pair: how far its start and its end lie from now."""
    made = request(len(shifts_ns))
    for span, (start_ns, end_ns) in zip(made.resource_spans[0].scope_spans[0].spans, shifts_ns, strict=True):
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns + start_ns, now_ns + end_ns
    return made


def as_json(made: ExportTraceServiceRequest) -> bytes:
    said = MessageToDict(made)
    for span in said["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["kind"] = 2
    for span, given in zip(
        said["resourceSpans"][0]["scopeSpans"][0]["spans"], made.resource_spans[0].scope_spans[0].spans, strict=True
    ):
        span["traceId"], span["spanId"] = given.trace_id.hex(), given.span_id.hex()
        span["parentSpanId"] = given.parent_span_id.hex()
    return json.dumps(said).encode()


def unusual(made: ExportTraceServiceRequest) -> bytes:
    """With a field that is not known, which the kernel leaves to the parser."""
    return made.SerializeToString() + b"\x3a\x00"


WAYS: dict[str, Callable[[ExportTraceServiceRequest], bytes]] = {
    "kernel": lambda made: made.SerializeToString(),
    "parser": unusual,
    "json": lambda made: as_protobuf(as_json(made)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_lies_ahead_or_too_far_back_is_refused_and_the_rest_read(way: str) -> None:
    body = WAYS[way](
        moved(
            (-MS, 0),
            (9 * MINUTES_NS, 10 * MINUTES_NS),
            (0, 10 * MINUTES_NS + 1),
            (11 * MINUTES_NS, 0),
            (30 * DAY_NS, 30 * DAY_NS),
            (-30 * DAY_NS, -29 * DAY_NS),
            (-30 * DAY_NS - 1, 0),
        )
    )
    assert export_request.check(body, WITHIN) == {AHEAD: 3, OLD: 1}
    read = [
        span.start_ns - NOW_NS
        for spans in export_request.read(body, within=WITHIN)
        for part in spans.parts()
        for span in spans.of(part)
    ]
    assert sorted(read) == [-30 * DAY_NS, -MS, 9 * MINUTES_NS]
    assert not export_request.check(body) and len(spans_in(body)) == 7, "without bounds all are taken"


def test_bounds_never_leave_what_can_be_stored() -> None:
    assert bounds(5, 10) == (1, 5 + span_faults.AHEAD_NS)  # type: ignore[attr-defined]
    assert bounds(2**63 - 1, 1).latest_ns == span_faults.LATEST_NS - 1


def test_a_sender_is_told_and_the_ledger_does_not_look_fresh(telemetry: Running) -> None:
    now_ns, before = time.time_ns(), telemetry.metric("weir_ingest_rejected_spans_total")
    bad = moved((30 * DAY_NS, 30 * DAY_NS), (-4000 * DAY_NS, -4000 * DAY_NS), now_ns=now_ns)
    good = request(1)
    bad.resource_spans[0].scope_spans[0].spans.append(good.resource_spans[0].scope_spans[0].spans[0])
    answers: list[ExportTraceServiceResponse] = []
    code, said, _ = telemetry.post(bad.SerializeToString())
    assert code == 200
    answers.append(ExportTraceServiceResponse.FromString(said))
    with connected(telemetry) as channel:
        export = channel.unary_unary(EXPORT)
        answers.append(ExportTraceServiceResponse.FromString(export(bad.SerializeToString())))
    for answer in answers:
        assert answer.partial_success.rejected_spans == 2
        assert AHEAD in answer.partial_success.error_message and OLD in answer.partial_success.error_message
    code, said, _ = telemetry.post(as_json(bad), Content_Type="application/json")
    assert code == 200 and json.loads(said)["partialSuccess"]["rejectedSpans"] == "2"
    assert telemetry.metric("weir_ingest_rejected_spans_total") == before + 6
    with telemetry.store() as store:
        trace_id = good.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
        eventually(lambda: len(store.requests.request_rows(trace_id)) == 1, "it has its row")
        [[newest]] = store.rows("SELECT max(start_ns) FROM spans", {})
        assert newest <= time.time_ns()


def nested(depth: int) -> bytes:
    value = '{"arrayValue":{"values":[' * depth + '{"stringValue":"x"}' + "]}}" * depth
    made = json.loads(as_json(moved((-MS, 0))))
    made["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = [{"key": "k", "value": "HERE"}]
    return json.dumps(made).replace('"HERE"', value).encode()


def test_an_attribute_that_nests_too_deeply_is_refused_wherever_it_is_read() -> None:
    """The pipeline must be able to read what the receiver accepts, at any depth of its own stack."""
    assert not export_request.check(as_protobuf(nested(48)))
    with pytest.raises(MalformedError, match="too deep"):
        as_protobuf(nested(49))
