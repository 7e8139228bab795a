"""Scrapes of real targets: Triton, a prometheus_client server in both formats, telemetry itself, and a target that goes down."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder

from controlplane.telemetry.core.metric_types import TargetEvent, TargetState
from controlplane.telemetry.metrics.core import triton
from controlplane.telemetry.metrics.core.counters import increase
from controlplane.telemetry.metrics.core.stale import stale
from controlplane.telemetry.metrics.scrape.targets import FILE
from deploy.local.ports import free_port
from deploy.local.triton import Triton
from tests.support.telemetry.metric_reading import ALL, series, stored
from tests.support.telemetry.process import Run, Running
from tests.support.wait import eventually


class Exposer:
    """A page of metrics with a token, which a test may change, break and stop."""

    def __init__(self, port: int, served: int) -> None:
        self.registry = CollectorRegistry()
        Counter("shop_served", "x", ["code"], registry=self.registry).labels("200").inc(served)
        self.broken = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                allowed = self.headers.get("Authorization") == "Bearer open-sesame"
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(outer.broken.encode() or encode(outer.registry))

            def log_message(self, *_: object) -> None: ...

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def exposer(port: int, *, served: int) -> Iterator[Exposer]:
    made = Exposer(port, served)
    try:
        yield made
    finally:
        made.stop()


def state(telemetry: Running, job: str) -> TargetState | None:
    with telemetry.store() as store:
        return next((one for one in store.scrapes.targets(ALL) if one.job == job), None)


def events(telemetry: Running, job: str) -> list[TargetEvent]:
    with telemetry.store() as store:
        return [one for one in store.scrapes.events(ALL) if one.job == job]


def target(job: str, url: str, **more: object) -> dict[str, object]:
    return {"job": job, "url": url, "interval_s": 0.3, "timeout_s": 10, **more}


def test_a_target_s_life(run: Run, tmp_path: Path, session_triton: Triton) -> None:
    """A target that is up, reset, broken, down, back and removed, in one test because starting a store takes long."""
    port = free_port()
    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    shop = target("shop", f"http://127.0.0.1:{port}/metrics", bearer_token_file=str(token), labels={"pool": "a"})
    telemetry = run(
        scrape_targets=json.dumps([shop, target("triton", f"http://{session_triton.metrics}/metrics")])
    ).ready()
    # Triton's own
    [cpu, *_] = stored(telemetry, "nv_cpu_utilization", at_least=2, job="triton")
    assert cpu.info.kind == "gauge" and cpu.info.labels["instance"] == session_triton.metrics
    queue = stored(telemetry, "nv_inference_queue_duration_us", job="triton")
    assert {one.info.kind for one in queue} == {"counter"} and {one.info.labels["model"] for one in queue}
    # the shop: down at first, which is an event and no sample of its metrics
    eventually(lambda: len(events(telemetry, "shop")) == 1, "that it is down is an event")
    assert series(telemetry, "shop_served_total") == []
    with exposer(port, served=5) as open_shop:
        eventually(lambda: len(events(telemetry, "shop")) == 2, "that it came up is an event")
        [found] = stored(telemetry, "shop_served_total", at_least=2, job="shop")
        assert (found.info.kind, found.info.labels["pool"], found.values[-1]) == ("counter", "a", 5)
        assert found.starts[0] > 0, "OpenMetrics says since when it counts"
        now = state(telemetry, "shop")
        assert now is not None and (now.up, now.error, now.samples) == (True, "", 1) and now.duration_ns > 0
        open_shop.broken = "this is {no page\n# EOF\n"
        eventually(
            lambda: "OpenMetrics" in getattr(state(telemetry, "shop"), "error", ""),
            "a page that cannot be read is a target down",
        )
        assert stale(stored(telemetry, "shop_served_total")[0].values)[-1], "and its series end"
    eventually(lambda: "Connect" in getattr(state(telemetry, "shop"), "error", ""), "the reason is the last one")
    with exposer(port, served=2):
        eventually(
            lambda: series(telemetry, "shop_served_total")[0].values[-1] == 2, "its first value after the restart"
        )
    eventually(lambda: len(events(telemetry, "shop")) == 4, "that it is back is an event")
    assert [one.up for one in events(telemetry, "shop")] == [False, True, False, True]
    [found] = series(telemetry, "shop_served_total")
    assert 0 not in found.values, "never a zero for what nobody saw"
    grown = increase(found.times, found.values, found.starts, from_ns=int(found.starts[0]) - 1, to_ns=2**62)
    seen = list(zip(found.times.tolist(), found.values.tolist(), found.starts.tolist(), strict=True))
    assert grown is not None and (grown.amount, grown.resets) == (7, 1), seen
    with telemetry.store() as store:
        up = {one.info.labels["job"]: one.value for one in store.metrics.latest("up", time.time_ns())}
    assert {"shop", "triton"} <= up.keys() <= {"shop", "triton", "store"} and up["triton"] == 1
    # the fleet's list is followed while it runs, and a list that cannot be used changes nothing
    own = target("telemetry", f"{telemetry.url}/metrics")
    (telemetry.home / FILE).write_text(json.dumps([own]))
    [stored_samples] = stored(telemetry, "weir_ingest_stored_samples_total", at_least=2, job="telemetry")
    assert stored_samples.values[-1] > 0
    (telemetry.home / FILE).write_text("[")
    eventually(lambda: "scrape.targets_refused" in telemetry.log.read_text(), "it says so")
    (telemetry.home / FILE).write_text("[]")
    eventually(
        lambda: bool(stale(series(telemetry, "weir_ingest_stored_samples_total")[0].values)[-1]),
        "who is no target any more ends in a gap",
    )
    assert "Traceback" not in telemetry.log.read_text()


def test_a_list_that_cannot_be_used_is_refused_at_the_start(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"WEIR_SCRAPE_TARGETS.*JSON list"):
        run(scrape_targets='[{"job": 5}]')


def test_triton_without_traces_says_queue_and_compute_as_averages(session_triton: Triton) -> None:
    before = triton.totals(_stats(session_triton))
    for _ in range(3):
        prompt = {"prompt": "hello", "prompt_tokens": 1, "max_tokens": 4, "temperature": 0.0, "seed": 1}
        answer = post(f"http://{session_triton.http}/v2/models/chat_small/generate_stream", json.dumps(prompt).encode())
        assert b"data:" in answer
    key = next(key for key in before if key[0] == "chat_small")

    def counted() -> bool:  # a request counts when Triton has let go of it, a little after its last response
        return triton.totals(_stats(session_triton))[key].requests >= before[key].requests + 3

    eventually(counted, "Triton has counted the requests")
    after = triton.totals(_stats(session_triton))
    found = triton.averages(before[key], after[key])
    assert found is not None and found.statistic == "average"
    assert found.requests >= 3 and found.compute_ms > 0 and found.queue_ms >= 0 and not found.reset
    assert triton.averages(after[key], after[key]) is None, "an average of nothing is not zero"


def test_a_model_loaded_anew_and_an_answer_that_is_not_triton_s() -> None:
    before, after = (
        triton.Totals(9, dict.fromkeys(triton.PARTS, 9_000_000)),
        triton.Totals(2, dict.fromkeys(triton.PARTS, 4_000_000)),
    )
    found = triton.averages(before, after)
    assert found is not None and (found.reset, found.requests, found.queue_ms, found.compute_ms) == (True, 2, 2.0, 6.0)
    for text in ("", "[]", '{"model_stats": [{"inference_stats": {}}]}'):
        with pytest.raises(ValueError, match="not understood"):
            triton.totals(text)


def _stats(server: Triton) -> bytes:
    return post(f"http://{server.http}/v2/models/stats")


def post(url: str, body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(url, body, timeout=60) as answer:
        found: bytes = answer.read()
        return found
