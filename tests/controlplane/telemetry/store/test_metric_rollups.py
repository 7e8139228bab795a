"""Gauges of load are kept by five minutes: mean, most and last."""

import math
import time
from typing import Any

import pytest
from django.test import Client

from controlplane.telemetry.query import answers
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
    assert fill(store, now_ns) == 1, "five minutes"
    rows = store.rows(
        "SELECT start_s, samples, mean, most, last, labels['model'] FROM metric_rollups WHERE metric = {metric:String}"
        " AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'metrics') ORDER BY start_s",
        {"metric": QUEUE},
    )
    wanted: dict[int, list[float]] = {}
    for time_ns, value in points:
        wanted.setdefault(time_ns // (300 * S) * 300, []).append(value)
    assert rows == [
        (start_s, len(values), sum(values) / len(values), max(values), values[-1], "large")
        for start_s, values in wanted.items()
    ]
    metrics = store.rows("SELECT DISTINCT toString(metric) FROM metric_rollups ORDER BY metric")
    assert metrics == [(QUEUE,), ("weir_gateway_requests_in_flight",)]


def test_a_long_chart_is_of_rollups_also_after_the_samples_are_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch, caller: Client, reader: Client
) -> None:
    now_ns = time.time_ns()
    from_ns = (now_ns // (3600 * S) - 12) * 3600 * S
    points = [(at, float(at // (300 * S) * 7 % 50)) for at in range(from_ns + 1, now_ns, 300 * S)]
    write(store, QUEUE, points, model="large")
    over = [(at, value) for at, value in points if at < from_ns + 3 * 3600 * S]
    write(store, QUEUE, over, model="retired")
    monkeypatch.setattr(answers, "store", lambda: store)
    asked = {"metric": QUEUE, "from": str(from_ns), "to": "now"}
    shown = points_of(caller, asked)
    assert not shown["rolled_up"], "nothing is built yet"
    fill(store, now_ns, together_s=12 * 3600)
    write(store, QUEUE, [(from_ns + 4 * 3600 * S + 5, 1000.0)], model="large")  # late, and not rolled up yet
    points.append((from_ns + 4 * 3600 * S + 5, 1000.0))
    wanted: dict[int, list[float]] = {}
    for at, value in points:
        wanted.setdefault(at // (900 * S) * 900 * S, []).append(value)
    for samples_gone in (False, True):
        if samples_gone:
            assert fill(store, now_ns, together_s=12 * 3600)
            for table, named in (("samples", "time_ns"), ("series", "seen_ns")):
                store.command(f"DELETE FROM {table} WHERE {named} < {from_ns + 8 * 3600 * S}")
            store.command("DELETE FROM series WHERE labels['model'] = 'retired'")
        shown = points_of(caller, asked)
        assert (shown["rolled_up"], shown["step_s"]) == (True, 900)
        assert [each["labels"]["model"] for each in shown["series"]] == ["large", "retired"]
        assert [(each["start_ns"], each["highest"]) for each in shown["series"][0]["points"]] == [
            (at, max(values)) for at, values in wanted.items()
        ]
        assert [each["value"] for each in shown["series"][0]["points"]] == pytest.approx(
            [sum(values) / len(values) for values in wanted.values()]
        )
        newest = caller.get("/api/v1/series", asked).json()["series"]
        assert [(each["samples"], each["ended"]) for each in newest] == [(len(points), False), (len(over), True)]
        page = reader.get("/signals", asked).content.decode()
        assert "rolled up by five minutes" in page
    short = points_of(caller, asked | {"from": "now-1h"})
    assert not short["rolled_up"]
    assert not points_of(caller, asked | {"as": "rate"})["rolled_up"]


def points_of(caller: Client, asked: dict[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = caller.get("/api/v1/series/points", asked).json()
    return answer
