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

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.ingest.otlp.decode.metrics import read_json, read_protobuf
from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import TOO_MANY, Builder
from controlplane.telemetry.metrics.core.stale import stale
from tests.support.telemetry.metric_payloads import DELTA, NOW_NS, S, counter, request, send
from tests.support.telemetry.metric_reading import series, stored
from tests.support.telemetry.mutation import mutated
from tests.support.telemetry.process import Running
from tests.support.telemetry.stored_metrics import YEARS_NS
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
        [ended] = store.metrics.newest_of("depth", Window(0, NOW_NS + 5 * S))
        [before] = store.metrics.newest_of("depth", Window(0, NOW_NS + S // 2))
    assert (ended.value, ended.ended) == (before.value, not before.ended) == (3, True)


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
    assert telemetry.metric("weir_ingest_rejected_samples_total") > 0
    assert telemetry.metric("weir_ingest_active_series") > 0


def test_series_past_the_limit_are_refused_and_known_ones_go_on() -> None:
    admission = Admission(10)

    def received(series: int, value: float) -> Builder:
        builder = Builder(admission, YEARS_NS)
        read_protobuf(request(**{f"m{n}": counter(value) for n in range(series)}).SerializeToString(), builder)
        admission.learn(list(builder.definitions))
        return builder

    assert not received(8, 1.0).rejected
    more = received(12, 2.0)
    assert (more.rejected, len(more), len(admission)) == ({TOO_MANY: 2}, 10, 10)


def test_an_exemplar_in_json_that_cannot_be_read_costs_nothing_else() -> None:
    builder = Builder(Admission(10), YEARS_NS)
    points = [{"asInt": 1, "timeUnixNano": NOW_NS, "exemplars": [{"traceId": "zz", "asInt": "none"}]}]
    metrics = [{"name": "a", "gauge": {"dataPoints": points}}]
    read_json(json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).encode(), builder)
    assert (len(builder), builder.rejected) == (1, {})


def test_a_point_without_a_number_is_not_0() -> None:
    """JavaScript writes NaN as null."""
    builder = Builder(Admission(10), YEARS_NS)
    points = [{"asDouble": None, "timeUnixNano": NOW_NS}, {"asInt": "0", "timeUnixNano": NOW_NS}]
    gone = {"timeUnixNano": NOW_NS, "flags": 1}
    metrics = [{"name": name, "gauge": {"dataPoints": each}} for name, each in (("a", points), ("b", [gone]))]
    read_json(json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).encode(), builder)
    assert (len(builder), builder.rejected) == (2, {"a data point has no number": 1})


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
            answers.add(telemetry.post(mutated(body, chance), "metrics", Content_Type=kind)[0])
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
