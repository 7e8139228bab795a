"""Exemplars of every protocol lead from a series to a trace. An invalid exemplar does not affect the samples beside it."""

import json
import time
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub

from controlplane.telemetry.ingest.remote_write import messages
from controlplane.telemetry.metrics.exemplars import (
    MAX_LOOKED_AT,
    MAX_PER_REQUEST,
    MAX_PER_SERIES,
    NO_TRACE,
    TOO_MANY,
    Exemplars,
    linked,
)
from controlplane.telemetry.store.read.metrics.exemplars import StoredExemplar
from tests.support.telemetry.metric_payloads import counter, request, send
from tests.support.telemetry.metric_reading import ALL, series, stored
from tests.support.telemetry.process import Running
from tests.support.telemetry.remote_write import NOW_MS, one, write
from tests.support.wait import eventually

NOW_NS = time.time_ns()
DAY_NS = 86_400 * 10**9
TRACE, OTHER, SPAN = bytes(range(1, 17)), bytes(range(16, 0, -1)), bytes(range(1, 9))


def exemplars(telemetry: Running, metric: str, count: int) -> list[StoredExemplar]:
    """The metric's exemplars, once there are so many."""
    found: list[StoredExemplar] = []

    def look() -> bool:
        with telemetry.store() as store:
            found[:] = store.exemplars.of_series(store.metrics.series(metric), ALL).shown
        return len(found) >= count

    eventually(look, f"{metric} has {count} exemplars")
    assert len(found) == count
    return found


def exemplar(value: float, trace_id: bytes = TRACE, at_ns: int = NOW_NS, **more: Any) -> dict[str, Any]:
    return {"as_double": value, "trace_id": trace_id, "time_unix_nano": at_ns, **more}


def histogram(*found: dict[str, Any], **more: Any) -> dict[str, Any]:
    point = {"count": 6, "sum": 3, "bucket_counts": [1, 2, 3], "explicit_bounds": [0.1, 1.0], "time_unix_nano": NOW_NS}
    return {"histogram": {"aggregation_temporality": 2, "data_points": [{**point, **more, "exemplars": list(found)}]}}


# OTLP


def test_over_otlp_each_goes_with_the_bucket_that_counted_it(telemetry: Running) -> None:
    given = [exemplar(0.1, span_id=SPAN), exemplar(0.5, OTHER), exemplar(7, at_ns=NOW_NS + 1)]
    assert send(telemetry, request(fell=histogram(*given))).error_message == ""
    found = exemplars(telemetry, "fell_bucket", 3)
    assert {(each.info.labels["le"], each.value, each.trace_id, each.span_id) for each in found} == {
        ("0.1", 0.1, TRACE.hex(), SPAN.hex()), ("1", 0.5, OTHER.hex(), ""), ("+Inf", 7.0, TRACE.hex(), ""),
    }  # fmt: skip
    assert {each.time_ns for each in found} == {NOW_NS, NOW_NS + 1}


def test_over_otlp_counters_gauges_and_histograms_of_other_kinds_have_them(telemetry: Running) -> None:
    summed = counter(5.0)
    summed["sum"]["data_points"][0]["exemplars"] = [exemplar(2)]
    gauge = {"gauge": {"data_points": [{"as_int": 4, "time_unix_nano": NOW_NS, "exemplars": [exemplar(4)]}]}}
    point = {"count": 2, "scale": 0, "positive": {"offset": 0, "bucket_counts": [1, 1]}, "time_unix_nano": NOW_NS}
    point["exemplars"] = [exemplar(3.5)]
    exponential = {"exponential_histogram": {"aggregation_temporality": 2, "data_points": [point]}}
    bare = histogram(exemplar(0.5), bucket_counts=[], explicit_bounds=[])
    send(telemetry, request(has_sum=summed, has_gauge=gauge, has_exp=exponential, has_count=bare))
    for metric, value in (("has_sum", 2), ("has_gauge", 4), ("has_exp_bucket", 3.5), ("has_count_count", 0.5)):
        [found] = exemplars(telemetry, metric, 1)
        assert (found.value, found.trace_id) == (value, TRACE.hex())
        assert found.info.labels.get("le", "4") == "4"


def test_over_otlp_json_ids_are_hexadecimal_and_a_broken_one_costs_nothing_else(telemetry: Running) -> None:
    def written(**more: Any) -> dict[str, Any]:
        return {"asDouble": 1.5, "timeUnixNano": str(NOW_NS), **more}

    given = [
        written(traceId=TRACE.hex().upper(), spanId=SPAN.hex()), written(traceId="no hex"), written(traceId="abc"), written(traceId=7), 5,
        written(traceId=OTHER.hex(), asDouble="much"), written(), written(traceId="abcd"),
    ]  # fmt: skip
    point = {"asDouble": 1, "timeUnixNano": str(NOW_NS), "exemplars": given}
    body = {
        "resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "in_json", "gauge": {"dataPoints": [point]}}]}]}]
    }
    code, answer, _ = telemetry.post(json.dumps(body).encode(), "metrics", Content_Type="application/json")
    said = json.loads(answer)["partialSuccess"]
    assert (code, said["rejectedDataPoints"]) == (200, "0")
    assert said["errorMessage"] == (
        "6 exemplars not kept: 5 × the exemplar cannot be read; 1 × the exemplar's trace id is not 16 bytes (32 hexadecimal digits)"
    )
    [found] = exemplars(telemetry, "in_json", 1)
    assert (found.trace_id, found.span_id, found.value) == (TRACE.hex(), SPAN.hex(), 1.5)
    assert [list(each.values) for each in stored(telemetry, "in_json")] == [[1]]


def test_over_grpc_a_resend_counts_once_and_what_is_wrong_is_said(telemetry: Running) -> None:
    given = [exemplar(0.5), exemplar(0.5, b"short"), exemplar(0.5, at_ns=0), exemplar(float("nan")), exemplar(1, b"")]
    with grpc.insecure_channel(f"127.0.0.1:{telemetry.grpc_port}") as channel:
        for _ in range(2):
            answer = MetricsServiceStub(channel).Export(request(over_grpc=histogram(*given)))  # type: ignore[no-untyped-call]
    assert answer.partial_success.rejected_data_points == 0
    for part in ("3 exemplars not kept", "1 × the exemplar has no time", "not 16 bytes", "not a finite number"):
        assert part in answer.partial_success.error_message
    assert len(exemplars(telemetry, "over_grpc_bucket", 1)) == 1
    assert telemetry.metric("weir_ingest_dropped_exemplars_total") >= 8, "and counted, those without a trace too"


def test_a_refused_point_keeps_no_exemplar(telemetry: Running) -> None:
    said = send(telemetry, request(refused=histogram(exemplar(0.5), explicit_bounds=[1, 2, 3])))
    assert (said.rejected_data_points, "exemplar" in said.error_message) == (1, False)
    with telemetry.store() as store:
        assert store.exemplars.of_series(store.metrics.series("refused_bucket"), ALL).total == 0


# Prometheus


def test_remote_write_has_them_as_labels(telemetry: Running) -> None:
    made = one("asked_bucket", (0, 3.0), le="0.5")
    for labels in ({"traceID": TRACE.hex(), "span_id": SPAN.hex()}, {"trace_id": "bad"}, {"user": "x"}):
        found = messages.Exemplar(value=0.4, timestamp=NOW_MS)
        for name, value in labels.items():
            found.labels.add(name=name, value=value)
        made.series[0].exemplars.append(found.SerializeToString())
    made.series[0].exemplars.append(b"\xff\xff")
    assert write(telemetry, made)[:2] == (204, "")
    [found] = exemplars(telemetry, "asked_bucket", 1)
    assert (found.info.labels, found.value, found.trace_id, found.span_id, found.time_ns) == (
        {"le": "0.5"}, 0.4, TRACE.hex(), SPAN.hex(), NOW_MS * 10**6,
    )  # fmt: skip
    assert list(stored(telemetry, "asked_bucket")[0].values) == [3]


def test_prometheus_sends_them_without_samples_and_native_histograms_have_theirs_beside_the_count(
    telemetry: Running,
) -> None:
    alone, native = messages.Request(), one("natively")
    alone.series.add().CopyFrom(one("alone_total").series[0])
    native.series[0].histograms.add(count_int=2, sum=2.5, scale=0, zero_count_int=2, timestamp=NOW_MS)
    for made in (alone, native):
        found = messages.Exemplar(value=0.4, timestamp=NOW_MS)
        found.labels.add(name="TraceID", value=TRACE.hex())
        made.series[0].exemplars.append(found.SerializeToString())
        assert write(telemetry, made)[0] == 204
    assert exemplars(telemetry, "alone_total", 1)[0].trace_id == TRACE.hex()
    assert exemplars(telemetry, "natively_count", 1)[0].value == 0.4
    assert series(telemetry, "alone_total") == []


# Bounds


def test_past_the_bounds_they_are_dropped_and_counted() -> None:
    found = Exemplars(NOW_NS, DAY_NS)
    for number in range(MAX_PER_REQUEST // MAX_PER_SERIES + 2):
        for value in found.some(range(MAX_PER_SERIES + 3)):
            found.add(number, NOW_NS, value, TRACE)
    assert len(found.kept) == MAX_PER_REQUEST
    assert found.dropped == {TOO_MANY: (MAX_PER_REQUEST // MAX_PER_SERIES + 2) * (MAX_PER_SERIES + 3) - MAX_PER_REQUEST}
    assert not Exemplars(NOW_NS, DAY_NS).faults


def test_no_more_are_looked_at_than_may_be() -> None:
    found = Exemplars(NOW_NS, DAY_NS)
    looked = sum(len(found.some([0] * MAX_PER_SERIES)) for _ in range(MAX_LOOKED_AT // MAX_PER_SERIES + 10))
    assert looked == MAX_LOOKED_AT


@pytest.mark.parametrize(
    ("labels", "ids"),
    [
        ({"trace_id": "0AF7651916CD43DD8448EB211C80319C"}, ("0af7651916cd43dd8448eb211c80319c", "")),
        ({"TraceID": "463ac35c9f6413ad", "spanID": "a2fb4a1d1a96d312"}, ("0" * 16 + "463ac35c9f6413ad", "a2fb4a1d1a96d312")),
        ({"trace": "ab"}, ("", "")),
        ({"traceID": ""}, ("", "")),
        ({"traceID": "ab cd" * 4, "span_id": "ab"}, ("00", "00")),
        ({"traceID": "bad"}, ("00", "")),
        ({"trace_id": "ab" * 17}, ("00", "")),
    ],
)  # fmt: skip
def test_ids_are_read_out_of_labels(labels: dict[str, str], ids: tuple[str, str]) -> None:
    trace_id, span_id = linked(labels.items())
    assert (trace_id.hex(), span_id.hex()) == ids


@given(st.text() | st.from_regex(r"[0-9a-fA-F]{0,40}"), st.floats(), st.integers(-(2**63), 2**63 - 1))
def test_whatever_comes_is_kept_or_counted(text: str, value: float, time_ns: int) -> None:
    found = Exemplars(NOW_NS, DAY_NS)
    kept = found.labelled(1, time_ns, value, [("trace_id", text), ("span_id", text)])
    assert kept == bool(found.kept) and len(found.kept) + found.dropped.total() == 1
    assert all(len(each.trace_id) == 16 and len(each.span_id) in (0, 8) for each in found.kept)
    assert (NO_TRACE in found.dropped) == (not text or (not text.strip("0") and 16 <= len(text) <= 32))
