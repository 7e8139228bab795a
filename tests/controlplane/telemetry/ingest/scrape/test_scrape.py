"""Scrapes of real targets: Triton, a prometheus_client server in both formats, and a target that goes down."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder
from structlog.testing import capture_logs

from controlplane.telemetry.core.metric_types import TargetEvent, TargetState
from controlplane.telemetry.ingest.scrape.targets import FILE
from controlplane.telemetry.metrics.core.counters import increase
from controlplane.telemetry.metrics.core.stale import stale
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from deploy.local.triton import Triton
from tests.support.telemetry.metric_reading import ALL, series, stored
from tests.support.telemetry.process import Run
from tests.support.telemetry.scraping import list_targets, scraping
from tests.support.wait import eventually

TRACE, OTHER, SPAN = "ab" * 16, "ba" * 16, "cd" * 8


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


def state(store: Store, job: str) -> TargetState | None:
    return next((one for one in store.scrapes.targets(ALL) if one.job == job), None)


def events(store: Store, job: str) -> list[TargetEvent]:
    return [one for one in store.scrapes.events(ALL) if one.job == job]


def target(job: str, url: str, **more: object) -> dict[str, object]:
    return {"job": job, "url": url, "interval_s": 0.3, "timeout_s": 10, **more}


def test_a_target_s_life(store: Store, tmp_path: Path) -> None:
    """A target that is down, up, broken, down again and back."""
    port = free_port()
    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    shop = target("shop", f"http://127.0.0.1:{port}/metrics", bearer_token_file=str(token), labels={"pool": "a"})
    with scraping(store, tmp_path, json.dumps([shop])):
        # down at first, which is an event and no sample of its metrics
        eventually(lambda: len(events(store, "shop")) == 1, "that it is down is an event")
        assert series(store, "shop_served_total") == []
        with exposer(port, served=5) as open_shop:
            eventually(lambda: len(events(store, "shop")) == 2, "that it came up is an event")
            [found] = stored(store, "shop_served_total", at_least=2, job="shop")
            assert (found.info.kind, found.info.labels["pool"], found.values[-1]) == ("counter", "a", 5)
            assert found.starts[0] > 0, "OpenMetrics says since when it counts"
            now = state(store, "shop")
            assert now is not None and (now.up, now.error, now.samples) == (True, "", 1) and now.duration_ns > 0
            open_shop.broken = "this is {no page\n# EOF\n"
            eventually(
                lambda: "OpenMetrics" in getattr(state(store, "shop"), "error", ""),
                "a page that cannot be read is a target down",
            )
            assert stale(stored(store, "shop_served_total")[0].values)[-1], "and its series end"
        eventually(
            lambda: getattr(state(store, "shop"), "error", "") == "no connection: Connection refused",
            "the reason is the last one",
        )
        with exposer(port, served=2):
            eventually(
                lambda: series(store, "shop_served_total")[0].values[-1] == 2, "its first value after the restart"
            )
            eventually(lambda: len(events(store, "shop")) == 4, "that it is back is an event")
            assert [one.up for one in events(store, "shop")] == [False, True, False, True]
    [found] = series(store, "shop_served_total")
    assert 0 not in found.values, "never a zero for what nobody saw"
    grown = increase(found.times, found.values, found.starts, from_ns=int(found.starts[0]) - 1, to_ns=2**62)
    seen = list(zip(found.times.tolist(), found.values.tolist(), found.starts.tolist(), strict=True))
    assert grown is not None and (grown.amount, grown.resets) == (7, 1), seen


def test_the_fleet_s_list_is_followed_and_one_that_cannot_be_used_changes_nothing(
    store: Store, tmp_path: Path, session_triton: Triton
) -> None:
    triton = target("triton", f"http://{session_triton.metrics}/metrics")
    with (
        scraping(store, tmp_path, json.dumps([triton])),
        exposer(port := free_port(), served=3),
        capture_logs() as logs,
    ):
        [cpu, *_] = stored(store, "nv_cpu_utilization", at_least=2, job="triton")
        assert cpu.info.kind == "gauge" and cpu.info.labels["instance"] == session_triton.metrics
        queue = stored(store, "nv_inference_queue_duration_us", job="triton")
        assert {one.info.kind for one in queue} == {"counter"} and {one.info.labels["model"] for one in queue}
        token = tmp_path / "token"
        token.write_text("open-sesame")
        list_targets(tmp_path, target("own", f"http://127.0.0.1:{port}/metrics", bearer_token_file=str(token)))
        stored(store, "shop_served_total", at_least=2, job="own")
        up = {one.info.labels["job"]: one.value for one in store.metrics.newest_of("up", ALL) if not one.ended}
        assert up == {"own": 1, "triton": 1}
        (tmp_path / FILE).write_text("[")
        eventually(lambda: [one["event"] for one in logs].count("scrape.targets_refused") == 1, "it says so")
        list_targets(tmp_path)
        eventually(
            lambda: bool(stale(series(store, "shop_served_total")[0].values)[-1]),
            "who is no target any more ends in a gap",
        )


def test_a_list_that_cannot_be_used_is_refused_at_the_start(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"WEIR_SCRAPE_TARGETS.*JSON list"):
        run(scrape_targets='[{"job": 5}]')
