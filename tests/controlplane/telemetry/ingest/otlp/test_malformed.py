"""Malformed input gets one of the contract's answers and never a traceback, and accepted input can be read."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ingest.otlp.decode.export_request import MalformedError
from controlplane.telemetry.ingest.otlp.decode.from_json import as_protobuf
from controlplane.telemetry.ingest.otlp.decode.metrics import read_protobuf
from controlplane.telemetry.ingest.otlp.decode.span_faults import UNREADABLE
from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.store.write.arrow_columns import span_table, table_spans
from tests.support.telemetry.metric_payloads import counter
from tests.support.telemetry.metric_payloads import request as metrics
from tests.support.telemetry.mutation import EXAMPLES, GENTLE, mutated
from tests.support.telemetry.otlp_grpc import EXPORT, connected
from tests.support.telemetry.otlp_payloads import pair, request, spans_in
from tests.support.telemetry.process import Running
from tests.support.telemetry.stored_metrics import YEARS_NS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "traceId",
    "spanId",
    "parentSpanId",
    "name",
    "kind",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "attributes",
    "events",
    "status",
)


def judge(body: bytes) -> None:
    """`check` and `read` agree: both read the body or neither does (an attribute when it is needed), and the result fits the store."""
    try:
        export_request.check(body)
    except MalformedError:
        with pytest.raises(MalformedError):
            for spans in export_request.read(body):
                spans.table()
    else:
        for spans in export_request.read(body):
            values = [span for part in spans.parts() for span in spans.of(part)]
            assert sorted(map(repr, table_spans(spans.table()))) == sorted(map(repr, table_spans(span_table(values))))


def judge_json(body: bytes) -> None:
    """What is JSON is a request in protobuf, whatever is refused of it."""
    with suppress(MalformedError):
        judge(as_protobuf(body))


@GENTLE
@given(st.binary(max_size=200))
@example(b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")
def test_any_bytes_are_judged_alike_twice(body: bytes) -> None:
    judge(body)
    judge_json(body)


@GENTLE
@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_json_in_place_of_a_span_is_judged_alike_twice(span: dict[str, object]) -> None:
    judge_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode())


@GENTLE
@given(st.integers())
def test_mutated_requests_are_judged_alike_twice(seed: int) -> None:
    body = mutated(request(3).SerializeToString(), random.Random(seed))
    judge(body)
    try:
        rejected = export_request.check(body)
    except MalformedError:
        return
    try:
        ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        assert rejected[UNREADABLE], "taken whole, although a protobuf parser refuses it"


@pytest.mark.parametrize("where", ["name", "attribute", "event", "link", "nested", "broken"])
def test_a_span_that_cannot_be_read_costs_no_other(where: str) -> None:
    """A URL has any bytes, and Envoy sends them as they came."""
    made = request(3)
    odd = made.resource_spans[0].scope_spans[0].spans[1]
    if where == "name":
        odd.name = "/v_"
    elif where == "attribute":
        odd.attributes.append(pair("url.path", "/v_"))
    elif where == "event":
        odd.events.add(name="/v_", time_unix_nano=7)
    elif where == "link":
        odd.links.add(trace_id=b"t" * 16, span_id=b"s" * 8).attributes.append(pair("at", "/v_"))
    elif where == "nested":
        odd.attributes.add(key="a").value.kvlist_value.values.add(key="b").value.string_value = "/v_"
    else:
        odd.attributes.append(pair("a", "/v_"))
    body = made.SerializeToString().replace(b"/v_", b"/v\xff")
    if where == "broken":
        body = body.replace(b"\x0a\x03/v\xff", b"\x0a\x7f/v\xff")
    assert export_request.check(body) == {UNREADABLE: 1}
    judge(body)
    assert len(spans_in(body)) == 2


def test_a_metric_that_cannot_be_read_costs_no_other() -> None:
    builder = Builder(Admission(10), YEARS_NS)
    body = metrics(good=counter(1.0), bad_=counter(1.0, 2.0)).SerializeToString().replace(b"bad_", b"bad\xff")
    read_protobuf(body, builder)
    assert (len(builder), list(builder.rejected.values())) == (1, [2])


def test_half_of_a_surrogate_pair_costs_no_more_than_itself() -> None:
    """JavaScript cuts long texts there."""
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    cut = [
        {"key": "a", "value": {"stringValue": "a \ud83d"}},
        {"key": "b", "value": {"stringValue": "\ude00 \ud83d\ude00 \\ud83d"}},
    ]
    sent = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span | {"name": "a", "attributes": cut}]}]}]})
    for body in (sent, sent.replace("ud83d", "uD83D")):
        [found] = spans_in(as_protobuf(body.encode()))
        assert found.attributes["a"] == "a \ufffd"
        assert str(found.attributes["b"]).lower() == "\ufffd \U0001f600 \\ud83d"


def test_deep_nesting_is_refused_and_not_followed() -> None:
    for body in (b'{"resourceSpans":' + b"[" * 100_000, b'{"x":' + b'{"x":' * 100_000):
        with pytest.raises(MalformedError):
            as_protobuf(body)


def bodies(shared_dir: Path, count: int) -> Iterator[tuple[bytes, str]]:
    """Mutated real requests of both encodings."""
    source = random.Random(7)
    recorded = [path.read_bytes() for path in sorted((shared_dir / "fixtures").glob("*/otlp-*.json"))]
    for number in range(count):
        if number % 2:
            yield mutated(source.choice(recorded), source), "application/json"
        else:
            yield mutated(request(4).SerializeToString(), source), "application/x-protobuf"


def test_the_process_answers_mutated_requests_by_contract_and_logs_no_traceback(
    telemetry: Running, shared_dir: Path
) -> None:
    answers: set[int] = set()
    for body, content_type in bodies(shared_dir, EXAMPLES):
        code, answer, headers = telemetry.post(body, Content_Type=content_type)
        assert headers["Content-Type"].partition(";")[0] == content_type
        if content_type == "application/json":
            json.loads(answer)
        answers.add(code)
    assert answers == {200, 400}
    codes: set[grpc.StatusCode] = set()
    with connected(telemetry) as channel:
        call = channel.unary_unary(EXPORT)
        for body, _ in bodies(shared_dir, EXAMPLES):
            try:
                call(body)
            except grpc.RpcError as error:
                codes.add(error.code())
    assert codes == {grpc.StatusCode.INVALID_ARGUMENT}
    assert "Traceback" not in telemetry.log.read_text()
    assert telemetry.metric("weir_ingest_inflight_bytes") == 0
