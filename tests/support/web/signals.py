"""A quarter of an hour of metrics: Tritons whose counters grow, one of which began again; a target that is down, and one nobody asks; and a
shop whose latencies lead to traces."""

from controlplane.telemetry.metrics.batch import Scrape
from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.store import Store
from tests.support.telemetry.stored_metrics import scraped, write

S = 10**9
EVERY = 15 * S
COUNT = 60


def fill(store: Store, to_ns: int) -> None:
    """Up to `to_ns`. On gpu-2 the counter begins again at half, and there is a gap of two minutes at three quarters."""
    times = [to_ns - (COUNT - n) * EVERY for n in range(1, COUNT + 1)]
    for instance in ("gpu-1:8002", "gpu-2:8002"):
        labels = {"job": "replica", "instance": instance, "model": "chat", "pool": "chat-eu"}
        sick = instance.startswith("gpu-2")
        seen = [(n, time) for n, time in enumerate(times) if not (sick and 44 <= n < 52)]
        counter = [(time, 30.0 * (n - 30 if sick and n >= 30 else n)) for n, time in seen]
        write(store, "nv_inference_request_success", counter, "counter", **labels)
        write(store, "nv_inference_pending_request_count", [(time, n % 7 + 0.5) for n, time in seen], "gauge", **labels)
        spent = [(time, 30.0 * n * 4_000) for n, (_, time) in enumerate(seen)]  # 4 ms of each request
        for part in ("queue", "compute_input", "compute_infer", "compute_output"):
            write(store, f"nv_inference_{part}_duration_us", spent, "counter", **labels)
        write(store, "nv_energy_us", [(time, 2.0) for _, time in seen], "gauge", unit="us", **labels)
        states = [(time, not (sick and 44 <= n < 52)) for n, time in enumerate(times)]
        scraped(store, [_scrape("replica", instance, time, up) for time, up in states])
    write(store, "loading_seconds", [(times[0], 2.5), (times[1], STALE)], "gauge", job="loader", instance="one:1")
    scraped(store, [_scrape("redis", "redis:9121", time, up=False) for time in times[-20:]])
    scraped(store, [_scrape("gone", "gone:1", time, up=True) for time in times[:10]])


def _scrape(job: str, instance: str, time_ns: int, up: bool) -> Scrape:
    error = "" if up else "ClientConnectorError: connection refused"
    return Scrape(time_ns, job, instance, f"http://{instance}/metrics", up, 12_000_000, 40 if up else 0, error)
