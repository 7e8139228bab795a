"""A quarter of an hour of metrics: Tritons whose counters grow, one of which began again; a target that is down, and one nobody asks; and a
shop whose latencies lead to traces."""

from controlplane.telemetry.metrics.batch import Scrape
from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.store import Store
from tests.support.telemetry.stored_metrics import linked, scraped, write

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
    _shop(store, times)


def _shop(store: Store, times: list[int]) -> None:
    """A histogram of seconds with an exemplar every half minute, whose traces are requests that the store has, where it has any."""
    rows = store.rows("SELECT trace_id FROM requests FINAL ORDER BY e2e_ns DESC LIMIT 30")
    traces = [bytes(trace_id) for (trace_id,) in rows] or [bytes([n] * 16) for n in range(1, 31)]
    labels = {"job": "shop", "instance": "shop:1"}
    for number, le in enumerate(("0.1", "0.5", "2.5", "+Inf")):
        counts = [(time, float(n * (5 + 3 * number))) for n, time in enumerate(times)]
        write(store, "shop_wait_seconds_bucket", counts, "counter", le=le, **labels)
    write(store, "shop_wait_seconds_count", [(time, 14.0 * n) for n, time in enumerate(times)], "counter", **labels)
    write(store, "shop_open_carts", [(time, 2.0 + n % 3) for n, time in enumerate(times)], "gauge", **labels)
    found = [(time - S, (0.05, 0.31, 1.9)[n % 3], traces[n % len(traces)]) for n, time in enumerate(times[::2])]
    for number, le in enumerate(("0.1", "0.5", "2.5")):
        linked(store, "shop_wait_seconds_bucket", found[number::3], le=le, **labels)
    linked(store, "shop_open_carts", [(times[-5], 3.5, traces[0])], **labels)
    linked(store, "shop_served_total", [(times[-5], 1.0, traces[0])], **labels)
    write(store, "shop_served_total", [(time, 2.0 * n) for n, time in enumerate(times)], "counter", **labels)


def _scrape(job: str, instance: str, time_ns: int, up: bool) -> Scrape:
    error = "" if up else "ClientConnectorError: connection refused"
    return Scrape(time_ns, job, instance, f"http://{instance}/metrics", up, 12_000_000, 40 if up else 0, error)
