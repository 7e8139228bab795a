"""OTLP over HTTP as the specification describes it, against the running process."""

import gzip
import json
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Running
from tests.support.telemetry.process import request as http
from tests.support.wait import eventually

JSON = "application/json"
PROTOBUF = "application/x-protobuf"


def test_full_success_leaves_partial_success_unset(telemetry: Running) -> None:
    code, body, headers = telemetry.post(request().SerializeToString())
    assert (code, headers["Content-Type"]) == (200, PROTOBUF)
    assert not ExportTraceServiceResponse.FromString(body).HasField("partial_success")


def test_the_official_json_examples_are_taken(telemetry: Running, shared_dir: Path) -> None:
    example = (shared_dir / "fixtures" / "otlp" / "trace.json").read_bytes()
    code, body, headers = telemetry.post(example, Content_Type=JSON)
    assert (code, body, headers["Content-Type"].partition(";")[0]) == (200, b"{}", JSON)


@pytest.mark.parametrize("signal", ["traces", "metrics"])
@pytest.mark.parametrize("encoding, body", [(PROTOBUF, b""), (JSON, b"{}")])
def test_an_empty_request_is_a_success(telemetry: Running, signal: str, encoding: str, body: bytes) -> None:
    code, answer, _ = telemetry.post(body, signal, Content_Type=encoding)
    assert (code, answer) == (200, body)


def test_gzip_of_one_or_two_members_and_a_charset_are_taken(telemetry: Running) -> None:
    assert telemetry.post(b'{"resourceSpans":[]}', Content_Type="application/json; charset=utf-8")[0] == 200
    whole = request(4).SerializeToString()
    for body in (gzip.compress(whole), gzip.compress(whole[:50]) + gzip.compress(whole[50:])):
        assert telemetry.post(body, Content_Encoding="gzip")[0] == 200


@pytest.mark.parametrize("body", [b"this is no gzip", gzip.compress(b"cut short" * 1000, mtime=0)[:-20], b""])
def test_broken_gzip_is_bad_data(telemetry: Running, body: bytes) -> None:
    code, answer, headers = telemetry.post(body, Content_Encoding="gzip")
    assert (code, headers["Content-Type"]) == (400, PROTOBUF)
    assert "gzip" in Status.FromString(answer).message


@pytest.mark.parametrize(
    "body, encoding", [(b"\x0a\xff\xff", PROTOBUF), (b"hello", PROTOBUF), (b"{", JSON), (b"[]", JSON), (b"", JSON)]
)
def test_a_body_that_cannot_be_read_is_bad_data_with_a_status_in_the_same_encoding(
    telemetry: Running, body: bytes, encoding: str
) -> None:
    code, answer, headers = telemetry.post(body, Content_Type=encoding)
    said = json.loads(answer) if encoding == JSON else None
    assert (code, headers["Content-Type"].partition(";")[0]) == (400, encoding)
    assert (said["code"] if said else Status.FromString(answer).code) == 3
    assert "Retry-After" not in headers


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_another_content_type_is_unsupported(telemetry: Running, content_type: str) -> None:
    code, answer, headers = telemetry.post(b"{}", Content_Type=content_type)
    assert (code, headers["Content-Type"].partition(";")[0]) == (415, JSON)
    assert "application/x-protobuf" in json.loads(answer)["message"]
    assert telemetry.post(b"", Content_Encoding="br")[0] == 415


def test_another_method_or_path_is_answered_with_a_status(telemetry: Running) -> None:
    code, body, headers = http("GET", f"{telemetry.url}/v1/traces")
    assert (code, headers["Allow"], json.loads(body)["code"]) == (405, "POST", 12)
    code, body, _ = http("POST", f"{telemetry.url}/v1/profiles", b"", {"Content-Type": JSON})
    assert (code, json.loads(body)["code"]) == (404, 5)


def test_spans_that_are_not_valid_are_refused_one_by_one_and_the_reason_is_told(telemetry: Running) -> None:
    made = request(6)
    spans = made.resource_spans[0].scope_spans[0].spans
    spans[1].trace_id, spans[2].span_id, spans[3].parent_span_id = b"short", bytes(8), b"\x01\x02"
    spans[4].start_time_unix_nano, spans[5].end_time_unix_nano = 0, 2**64 - 1
    code, body, _ = telemetry.post(made.SerializeToString())
    partial = ExportTraceServiceResponse.FromString(body).partial_success
    assert (code, partial.rejected_spans) == (200, 5)
    for field in ("trace_id", "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano"):
        assert field in partial.error_message
    kept = spans[0].trace_id.hex()
    with telemetry.store() as store:
        eventually(lambda: len(store.requests.trace(kept)) == 1, "the valid span is in the store")


def test_json_ids_of_either_case_mean_the_same_span(telemetry: Running) -> None:
    span = {"traceId": "5B8EFFF798038103D269B633813FC60D", "spanId": "EEE19B7EC3C1B174", "name": "a", "kind": 2,
            "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": 1544712661000000000,
            "attributes": [{"key": "n", "value": {"intValue": "-9007199254740993"}}], "unknownField": {"x": [1]}}  # fmt: skip
    for change in ({}, {"traceId": span["traceId"].lower(), "spanId": span["spanId"].lower()}):  # type: ignore[attr-defined]
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span | change]}]}]}).encode()
        assert telemetry.post(body, Content_Type=JSON)[1] == b"{}"
    with telemetry.store() as store:
        eventually(
            lambda: len(store.requests.trace("5b8efff798038103d269b633813fc60d")) == 1, "one span is in the store"
        )
        [stored] = store.requests.trace("5b8efff798038103d269b633813fc60d")
    assert stored.attributes["n"] == -9007199254740993
