"""Gauges of load are kept by minute and by five minutes: least, mean, most and last."""

import math
import time

from controlplane.telemetry.store import Store
from tests.support.telemetry.rollups import fill
from tests.support.telemetry.samples import S
from tests.support.telemetry.stored_metrics import write

QUEUE = "nv_inference_pending_request_count"


def test_gauges_are_rolled_up_and_late_samples_count(store: Store) -> None:
    now_ns = time.time_ns()
    from_ns = (now_ns - 3600 * S) // (300 * S) * 300 * S
    points = [(from_ns + second * S, float(second * 7 % 50)) for second in range(0, 600, 15)]
    write(store, QUEUE, [*points[:-3], (from_ns + 7 * S, math.nan)], model="large")
    write(store, "weir_gateway_requests_in_flight", points)
    write(store, "some_other_gauge", points)
    write(store, "nv_inference_count", points, kind="counter")
    assert fill(store, now_ns)
    write(store, QUEUE, points[-5:], model="large")  # two of them again
    assert fill(store, now_ns) == 2, "five minutes, for both steps"
    for step_s in (60, 300):
        rows = store.rows(
            "SELECT start_s, samples, least, mean, most, last, labels['model'] FROM metric_rollups WHERE metric = {metric:String}"
            " AND step_s = {step_s:UInt32} AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'metrics'"
            " AND step_s = {step_s:UInt32}) ORDER BY start_s",
            {"metric": QUEUE, "step_s": step_s},
        )
        wanted: dict[int, list[float]] = {}
        for time_ns, value in points:
            wanted.setdefault(time_ns // (step_s * S) * step_s, []).append(value)
        assert rows == [
            (start_s, len(values), min(values), sum(values) / len(values), max(values), values[-1], "large")
            for start_s, values in wanted.items()
        ]
    metrics = store.rows("SELECT DISTINCT toString(metric) FROM metric_rollups ORDER BY metric")
    assert metrics == [(QUEUE,), ("weir_gateway_requests_in_flight",)]
