"""OTLP metrics sent to a running telemetry process, and read back from its store."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, NumberDataPoint

from controlplane.telemetry.metrics.core.stale import stale
from tests.support.telemetry.metric_payloads import DELTA, NOW_NS, S, counter, request, send
from tests.support.telemetry.metric_reading import series, stored
from tests.support.telemetry.process import Run, Running
from tests.support.wait import eventually

ILL_BOUND = {"bucket_counts": [1], "explicit_bounds": [1, 2], "time_unix_nano": NOW_NS}
ILL_LABELLED = {
    "as_int": 1,
    "time_unix_nano": NOW_NS,
    "attributes": [{"key": "k", "value": {"string_value": "x" * 5000}}],
}


def test_the_published_example_is_stored_whole(telemetry: Running, shared_dir: Path) -> None:
    body = (shared_dir / "fixtures" / "otlp" / "metrics.json").read_bytes()
    code, answer, _ = telemetry.post(body, "metrics", Content_Type="application/json")
    assert (code, json.loads(answer)) == (200, {})
    [counter] = stored(telemetry, "my.counter")
    assert (counter.info.kind, counter.info.delta, counter.info.unit) == ("counter", True, "1")
    assert counter.info.labels == {
        "my.counter.attr": "some value", "service.name": "my.service", "otel.scope.name": "my.library"
    }  # fmt: skip
    assert list(counter.times) == [1544712660300000000] and list(counter.values) == [5]
    [gauge] = stored(telemetry, "my.gauge")
    assert (gauge.info.kind, list(gauge.values)) == ("gauge", [10])
    le = {one.info.labels["le"]: one.values[0] for one in stored(telemetry, "my.histogram_bucket")}
    assert le == {"1": 1, "+Inf": 2}
    assert stored(telemetry, "my.histogram_sum")[0].values[0] == 2
    assert stored(telemetry, "my.exponential.histogram_count")[0].values[0] == 3


def test_over_grpc_a_resend_counts_once_and_the_later_value_counts(telemetry: Running) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{telemetry.grpc_port}") as channel:
        for value in (4.0, 5.0, 5.0):
            stub = MetricsServiceStub(channel)  # type: ignore[no-untyped-call]
            answer = stub.Export(request(resent=counter(1.0, value)))
            assert not answer.HasField("partial_success")
    stored(telemetry, "resent")
    eventually(
        lambda: [list(one.values) for one in series(telemetry, "resent")] == [[1.0, 5.0]], "the last value counts"
    )


def test_a_summary_and_a_stale_point_are_stored(telemetry: Running) -> None:
    summary = {
        "count": 7, "sum": 2.5, "time_unix_nano": NOW_NS, "quantile_values": [{"quantile": 0.5, "value": 0.2}]
    }  # fmt: skip
    gauge = {"as_int": 3, "time_unix_nano": NOW_NS}
    gone = {"time_unix_nano": NOW_NS + S, "flags": 1}
    assert not send(
        telemetry,
        request(latency={"summary": {"data_points": [summary]}}, depth={"gauge": {"data_points": [gauge, gone]}}),
    ).rejected_data_points
    [half] = stored(telemetry, "latency")
    assert (half.info.labels["quantile"], half.info.kind, list(half.values)) == ("0.5", "gauge", [0.2])
    [depth] = stored(telemetry, "depth", at_least=2)
    assert list(stale(depth.values)) == [False, True], "what ended is marked, with the bits it was sent with"
    with telemetry.store() as store:
        assert store.metrics.latest("depth", NOW_NS + 5 * S) == []
        [one] = store.metrics.latest("depth", NOW_NS + S // 2)
    assert (one.value, one.age_ns) == (3, S // 2)


@pytest.mark.parametrize(
    "what, says",
    [
        (counter(1.0, temporality=0), "aggregation_temporality"),
        (counter(1.0, temporality=DELTA, monotonic=False), "cumulative"),
        (counter(1.0, at_ns=0), "no time"),
        (counter(1.0, at_ns=NOW_NS + 3600 * S), "10 minutes"),
        ({"histogram": {"aggregation_temporality": 2, "data_points": [ILL_BOUND]}}, "bounds"),
        ({"gauge": {"data_points": [ILL_LABELLED]}}, "label"),
    ],
)
def test_points_that_cannot_be_kept_are_counted_with_the_reason(
    telemetry: Running, what: dict[str, Any], says: str
) -> None:
    partial = send(telemetry, request(refused=what, taken=counter(1.0)))
    assert partial.rejected_data_points == 1 and says in partial.error_message


def test_series_past_the_limit_are_refused_and_known_ones_go_on(run: Run) -> None:
    telemetry = run(metrics_max_series=10, store_dsn="clickhouse://weir:x@127.0.0.1:1/weir")
    assert not send(telemetry, request(**{f"m{n}": counter(1.0) for n in range(8)})).rejected_data_points
    partial = send(telemetry, request(**{f"m{n}": counter(2.0) for n in range(12)}))
    assert partial.rejected_data_points == 2 and "WEIR_METRICS_MAX_SERIES" in partial.error_message
    assert telemetry.metric("weir_ingest_rejected_samples_total") == 2
    assert telemetry.metric("weir_ingest_active_series") == 10


def test_what_is_not_otlp_is_a_400_and_never_a_traceback(telemetry: Running, shared_dir: Path) -> None:
    example = (shared_dir / "fixtures" / "otlp" / "metrics.json").read_bytes()
    whole = request(
        a=counter(1.0, 2.0),
        b={
            "exponential_histogram": {
                "aggregation_temporality": 2,
                "data_points": [
                    {"scale": 30, "positive": {"offset": 2**31 - 1, "bucket_counts": [1]}, "time_unix_nano": NOW_NS}
                ],
            }
        },
    ).SerializeToString()
    chance = random.Random(5)
    answers = set()
    for body, kind in ((whole, "application/x-protobuf"), (example, "application/json")):
        for _ in range(150):
            broken = bytearray(body)
            for _ in range(chance.randint(1, 8)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            answers.add(
                telemetry.post(bytes(broken[: chance.randint(1, len(broken))]), "metrics", Content_Type=kind)[0]
            )
    for hostile in (
        b"[" * 100_000,
        b'{"resourceMetrics":' * 1000,
        b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"\\ud800"}]}]}]}',
        b"\xff",
    ):
        answers.add(telemetry.post(hostile, "metrics", Content_Type="application/json")[0])
    assert answers <= {200, 400}
    empty_points = request(a={"gauge": Gauge(data_points=[NumberDataPoint()] * 200_000)})
    partial = send(telemetry, empty_points)
    assert partial.rejected_data_points == 200_000 and "data points" in partial.error_message
    assert (
        telemetry.post(
            gzip.compress(b"[" + b"," * 3_000_000), "metrics", Content_Type="application/json", Content_Encoding="gzip"
        )[0]
        == 400
    )
    assert "Traceback" not in telemetry.log.read_text()
