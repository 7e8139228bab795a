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
from controlplane.telemetry.ingest.otlp.decode.wire import readable
from controlplane.telemetry.store.write.arrow_columns import span_table, table_spans
from tests.support.telemetry.mutation import EXAMPLES, GENTLE, mutated
from tests.support.telemetry.otlp_grpc import EXPORT, connected
from tests.support.telemetry.otlp_payloads import pair, request, spans_in
from tests.support.telemetry.process import Running

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
        export_request.check(body)
    except MalformedError:
        return
    try:
        ExportTraceServiceRequest.FromString(readable(ExportTraceServiceRequest.DESCRIPTOR, body))
    except DecodeError:
        pytest.fail("taken, although a protobuf parser refuses it, and not for its texts")


CUT = "\U0001f600".encode()[:3]
"""What is left of a smiley where a text was cut by its bytes."""


def test_a_text_that_is_no_utf_8_costs_no_more_than_itself() -> None:
    made = request(3)
    [resource] = made.resource_spans
    [scope] = resource.scope_spans
    odd = scope.spans[1]
    resource.resource.attributes.append(pair("region", "1\ufffd"))
    scope.scope.name, odd.name, odd.status.message = "2\ufffd", "3\ufffd", "4\ufffd"
    odd.events.add(name="5\ufffd", time_unix_nano=7)
    odd.links.add(trace_id=b"t" * 16, span_id=b"s" * 8).attributes.append(pair("at", "6\ufffd"))
    odd.attributes.append(pair("url.path", "7\ufffd"))
    nested = odd.attributes.add(key="8\ufffd").value.kvlist_value.values.add(key="9\ufffd")
    nested.value.array_value.values.add(string_value="0\ufffd")
    body = made.SerializeToString()
    damaged = body.replace("\ufffd".encode(), CUT)
    assert damaged != body and not export_request.check(damaged)
    assert sorted(spans_in(damaged)) == sorted(spans_in(body))
    assert str(sorted(spans_in(damaged))).count("\ufffd") == 14, "a resource's and a scope's are those of three spans"


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
