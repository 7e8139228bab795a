"""Prometheus remote write, by hand and by a real Prometheus."""

import contextlib
import json
import math
import random
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from controlplane.telemetry.core.metric_types import Matcher
from controlplane.telemetry.ingest.remote_write.decode import read
from controlplane.telemetry.ingest.remote_write.http import PATH
from controlplane.telemetry.ingest.remote_write.messages import Request
from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.metrics.core.stale import STALE, stale
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from tests.support import need
from tests.support.telemetry.metric_reading import ALL, series, stored
from tests.support.telemetry.mutation import mutated
from tests.support.telemetry.process import Run, Running
from tests.support.telemetry.remote_write import NOW_MS, PROTOBUF, compress, one, write
from tests.support.telemetry.stored_metrics import YEARS_NS
from tests.support.wait import eventually


def test_it_is_204_and_samples_may_come_late_and_twice(telemetry: Running) -> None:
    for samples in ([(2000, 3.0)], [(0, 1.0), (1000, 2.0)], [(1000, 2.5)], [(3000, STALE)]):
        assert write(telemetry, one("late", *samples, job="a"))[:2] == (204, "")
    eventually(
        lambda: [list(s.values[:3]) for s in series(telemetry, "late")] == [[1.0, 2.5, 3.0]], "all are there, in order"
    )
    [found] = stored(telemetry, "late", at_least=4, job="a")
    assert [time_ns // 10**6 - NOW_MS for time_ns in found.times.tolist()] == [0, 1000, 2000, 3000]
    assert list(stale(found.values)) == [False, False, False, True]


def test_an_empty_request_is_a_success(telemetry: Running) -> None:
    assert write(telemetry, Request())[0] == 204


def test_a_series_that_cannot_be_read_costs_no_other() -> None:
    builder = Builder(Admission(10), YEARS_NS)
    odd = one("odd", (0, 1.0), job="/v_").SerializeToString().replace(b"/v_", b"/v\xff")
    read(one("good", (0, 1.0)).SerializeToString() + odd, builder)
    assert (len(builder), list(builder.rejected.values())) == (1, [1])


def test_native_histograms_become_classic_ones(telemetry: Running) -> None:
    made = one("native")
    histogram = made.series[0].histograms.add(count_int=10, sum=12.5, scale=0, zero_count_int=1, timestamp=NOW_MS)
    histogram.positive_spans.add(offset=0, length=2)
    histogram.positive_spans.add(offset=1, length=1)
    histogram.positive_deltas.extend([2, 1, 1])
    custom = made.series[0].histograms.add(
        count_int=5, sum=1, scale=-53, timestamp=NOW_MS + 1000, custom_bounds=[0.5, 2.0]
    )
    custom.positive_spans.add(offset=0, length=3)
    custom.positive_deltas.extend([1, 1, 0])
    assert write(telemetry, made)[0] == 204
    found = {s.info.labels["le"]: list(s.values) for s in stored(telemetry, "native_bucket", at_least=9)}
    assert found == {"0": [1], "0.5": [1, 1], "1": [3], "2": [6, 3], "4": [6], "8": [10], "+Inf": [10, 5]}
    assert [list(s.values) for s in stored(telemetry, "native_sum", at_least=2)] == [[12.5, 1]]


@pytest.mark.parametrize(
    "kind, encoding",
    [
        ("application/json", "snappy"),
        (f"{PROTOBUF};proto=io.prometheus.write.v2.Request", "snappy"),
        (PROTOBUF, "gzip"),
        (PROTOBUF, ""),
    ],
)
def test_an_unknown_message_or_encoding_is_415(telemetry: Running, kind: str, encoding: str) -> None:
    code, said, _ = write(telemetry, one("x", (0, 1.0)), kind, Content_Encoding=encoding)
    assert code == 415 and "send" in said


def test_a_part_that_is_refused_is_400_with_reason_and_the_rest_is_written(telemetry: Running) -> None:
    made = one("half", (0, 1.0), (3_600_000, 2.0))
    made.series.add().samples.add(value=1, timestamp=NOW_MS)
    code, said, _ = write(telemetry, made)
    assert code == 400 and "2 samples refused" in said and "10 minutes ahead" in said and "__name__" in said
    assert [list(each.values) for each in stored(telemetry, "half")] == [[1.0]]
    doubled = one("x", (0, 1.0))
    doubled.series[0].labels.add(name="a", value="1")
    doubled.series[0].labels.add(name="a", value="2")
    code, said, _ = write(telemetry, doubled)
    assert code == 400 and "twice" in said


def test_a_token_is_asked_for_and_back_pressure_says_when_to_come_again(small: Running) -> None:
    assert write(small, one("x", (0, 1.0)))[0] == 401
    authorized = {"Authorization": "Bearer secret"}
    wide = Request()
    for n in range(2000):
        wide.series.add().CopyFrom(one("wide", (0, math.pi * n), n=str(n), filler=f"{n}" * 10).series[0])
    while (refused := write(small, wide, **authorized))[0] == 204:
        pass
    assert refused[0] == 503 and refused[2]["Retry-After"] == "5"


def test_what_is_not_remote_write_is_400_and_what_is_too_large_413(telemetry: Running) -> None:
    valid, chance, answers = one("ok", (0, 1.0), a="b").SerializeToString(), random.Random(7), set()
    for _ in range(150):
        answers.add(write(telemetry, compress(mutated(valid, chance)))[0])
        answers.add(write(telemetry, mutated(compress(valid), chance))[0])
    assert answers <= {204, 400, 413}
    assert write(telemetry, b"")[0] == 400 and write(telemetry, b"\xff\xff\xff\xff\x0f")[0] == 413
    assert "Traceback" not in telemetry.log.read_text()


def test_a_real_prometheus_writes_what_it_scrapes(telemetry: Running, tmp_path: Path) -> None:
    prometheus = need.program("prometheus", install="apt-get install -y prometheus")
    registry = CollectorRegistry()
    requests = Counter("shop_requests", "x", ["code"], registry=registry)
    Gauge("shop_open", "x", registry=registry).set(1)
    requests.labels("200").inc(41, {"trace_id": "ab" * 16})
    server, thread = start_http_server(0, "127.0.0.1", registry)
    listen = f"127.0.0.1:{free_port()}"
    (tmp_path / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {"job_name": "shop", "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}]}
                ],
                "remote_write": [{"url": telemetry.url + PATH, "queue_config": {"batch_send_deadline": "500ms"}}],
            }
        )
    )
    command = [
        prometheus,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={listen}",
    ]
    with (tmp_path / "prometheus.log").open("wb") as log, contextlib.ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen([str(part) for part in command], stdout=log, stderr=log))
        stack.callback(process.terminate)
        [found] = stored(telemetry, "shop_requests_total", at_least=2, job="shop")
        assert found.info.labels["code"] == "200" and set(found.values.tolist()) == {41}
        requests.labels("200").inc()
        eventually(
            lambda: series(telemetry, "shop_requests_total", job="shop")[0].values[-1] == 42,
            "the counter's next value came",
        )
        server.shutdown()
        server.server_close()
        thread.join()
        eventually(
            lambda: bool(stale(series(telemetry, "shop_open", job="shop")[0].values)[-1]), "what is gone ends in a gap"
        )
        with telemetry.store() as store:
            check_down(store)
    assert "non-recoverable" not in (tmp_path / "prometheus.log").read_text()


def check_down(store: Store) -> None:
    assert [one.ended for one in store.metrics.newest_of("shop_open", ALL)] == [True]
    up = store.metrics.newest_of("up", ALL, [Matcher("job", "=~", "sh.p"), Matcher("instance", "!=", "")])
    assert [(one.value, one.ended) for one in up] == [(0, False)]


def test_what_was_acknowledged_survives_a_kill(run: Run) -> None:
    telemetry = run()  # and not yet ready: the store has not seen anything
    made = one("kept", (0, 1.0), (1000, 2.0))
    assert write(telemetry, made)[0] == 204
    telemetry.kill()
    telemetry.start().ready()
    [found] = stored(telemetry, "kept", at_least=2)
    assert list(found.values) == [1.0, 2.0]
