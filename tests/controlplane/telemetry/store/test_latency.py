"""The figures of the latency page are those numpy finds on the same rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controlplane.telemetry.core.query_types import Filters, Quantiles, StageShare, Totals, Window
from controlplane.telemetry.ledger.row import Attempt, LedgerRow
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.read.where import MAX_POINTS
from tests.support.telemetry.embedded_store import UNASKED
from tests.support.telemetry.latency_figures import assert_quantiles, assert_report, assert_stacks, choices
from tests.support.telemetry.samples import HOUR, NOON_NS, S, answered, random_rows, row


@pytest.mark.parametrize("count", [1, 2, 3, 7, 2003])
def test_a_report_is_exact(store: Store, count: int) -> None:
    rows = random_rows(count, seed=count)
    store.writer.insert_requests(rows, version=1)
    assert_report(store.latency.report(HOUR), rows)
    [point] = store.latency.series(HOUR, None, 86400)
    assert_stacks(point.stack_ms, rows)


def test_requests_that_took_equally_long_have_no_excess(store: Store) -> None:
    rows = [row(number) for number in range(1, 8)]
    store.writer.insert_requests(rows, version=1)
    assert_report(store.latency.report(HOUR), rows)


def test_requests_that_took_no_time_have_no_shares_and_no_error(store: Store) -> None:
    store.writer.insert_requests([row(1, stages={"queue": 0, "model": 0})], version=1)
    assert {figures.share for figures in store.latency.report(HOUR).stages.values()} == {0.0}


def test_a_report_by_dimension_is_each_value_s_own(store: Store) -> None:
    rows = random_rows(800, seed=3)
    store.writer.insert_requests(rows, version=1)
    reports = store.latency.reports_by(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    assert {value for value, _ in reports} == {"", "0-127", "512-1023", "131072+"}
    assert [report.requests for _, report in reports] == sorted(
        (report.requests for _, report in reports), reverse=True
    )
    for value, report in reports:
        assert_report(report, [row for row in rows if row.prompt_bucket == value and row.status in ("ok", "error")])


def test_groups_and_totals_are_the_report_without_what_pages_do_not_show(store: Store) -> None:
    rows = random_rows(800, seed=4)
    store.writer.insert_requests(rows, version=1)
    groups = store.latency.groups(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    reports = store.latency.reports_by(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    assert list(groups) == [value for value, _ in reports]
    for value, report in reports:
        group = groups[value]
        assert (group.requests, group.errors, group.e2e_ms) == (report.requests, report.errors, report.e2e_ms)
        for name, figures in report.stages.items():
            assert group.stages[name] == StageShare(figures.mean_ms, figures.share, figures.share_above_median)
    report, totals = store.latency.report(HOUR), store.latency.totals(HOUR)
    assert totals == Totals(report.requests, report.errors, report.e2e_ms, report.newest_ns, report.cancelled)


def outage() -> list[LedgerRow]:
    """A hundred answers of 10 ms, then three hundred failures of 0.1 ms, and ten clients that left after a second."""
    fast = {"stages": {"queue": 0, "model": 0, "gateway": 100_000}, "http_status": 503, "error_stage": "model"}
    return [
        *(row(number) for number in range(1, 101)),
        *(row(number, status="error", error_type="no_replica", **fast) for number in range(101, 301)),
        *(row(number, status="rejected", error_type="queue_full", **fast) for number in range(301, 401)),
        *(row(number, status="cancelled", stages={"model": S}) for number in range(401, 411)),
    ]


def test_latency_is_of_what_was_answered(store: Store) -> None:
    """Fast failures would improve every quantile, and what clients waited before they left is no answer."""
    store.writer.insert_requests(outage(), version=1)
    report = store.latency.report(HOUR)
    assert (report.requests, report.errors, report.cancelled, report.answered) == (410, 300, 10, 100)
    assert report.e2e_ms == Quantiles(10, 10, 10)
    assert report.ttft_ms == {"gateway": Quantiles(3, 3, 3)}
    assert report.ttft_count == {"gateway": 100}
    assert (report.stages["gateway"].p99_ms, report.stages["gateway"].share) == (0, 0)
    assert store.latency.totals(HOUR).e2e_ms == Quantiles(10, 10, 10)
    [point] = store.latency.series(HOUR, None, 86400)
    assert (point.requests, point.errors, point.cancelled) == (410, 300, 10)
    assert point.e2e_ms == Quantiles(10, 10, 10)
    assert point.stack_ms["p50"]["model"] == 9
    [found] = store.overview.health(HOUR, "pool")
    assert (found.requests, found.errors, found.p95_ms) == (410, 300, 10)
    assert [(cell.low_ns < 10_000_000, cell.requests) for cell in store.explain.heatmap(HOUR, None, 3600)] == [
        (False, 100)
    ]
    assert store.explain.slowest(HOUR).min_e2e_ns == 10_000_001
    assert store.explain.findings(HOUR, None).rest == 100
    assert store.latency.groups(HOUR, None, "status")["error"].e2e_ms is None


def test_where_nothing_was_answered_there_is_no_latency_and_the_errors_are_counted(store: Store) -> None:
    rows = [one for one in outage() if one.status != "ok"]
    store.writer.insert_requests(rows, version=1)
    assert_report(store.latency.report(HOUR), rows)
    [point] = store.latency.series(HOUR, None, 86400)
    assert (point.requests, point.errors, point.cancelled, point.e2e_ms, point.stack_ms) == (310, 300, 10, None, {})
    assert store.latency.totals(HOUR) == Totals(310, 300, None, max(one.end_ns for one in rows), 10)
    [(_, report)] = store.latency.reports_by(HOUR, None, "model")
    assert_report(report, rows)
    assert store.latency.groups(HOUR, None, "model")["small"].errors == 300
    cells = store.latency.cells(HOUR, None, ("model", "status"), 1)
    assert [(cell.row, cell.column, cell.requests, cell.errors, cell.e2e_ms) for cell in cells.shown] == [
        ("small", "error", 200, 200, None)
    ]
    assert (cells.others, cells.others_requests) == (2, 110)
    [found] = store.overview.health(HOUR, "pool")
    assert found.p95_ms is None


def attempt(replica: str, outcome: str = "ok", ms: int = 5, pool: str = "small-eu", **changes: Any) -> Attempt:
    error = "unavailable" if outcome == "error" else ""
    return Attempt(pool, replica, outcome, error, changes.pop("retried", False), ms * 10**6, ms * 10**6)


def test_a_replica_has_the_p95_and_the_errors_of_its_own_attempts_in_each_pool(store: Store) -> None:
    sick = attempt("one", "error", 5970, retried=True)
    rows = [
        *(row(number, attempts=(sick, attempt("two", ms=9)), replica="two") for number in range(1, 11)),
        *(row(number, attempts=(attempt("two", ms=90, pool="large-eu"),), pool="large-eu") for number in range(11, 21)),
        row(21, attempts=(attempt("one", "cancelled", 700),), status="cancelled"),
        row(22, replica="old"),  # written before attempts were
        row(23, replica="two", cache_outcome="coalesced"),
        row(24, replica="", status="error"),
    ]
    store.writer.insert_requests(rows, version=1)
    found = {(one.pool, one.value): (one.requests, one.errors, one.p95_ms) for one in store.overview.replicas(HOUR)}
    assert found == {
        ("small-eu", "one"): (11, 10, None),
        ("small-eu", "two"): (10, 0, 9),
        ("large-eu", "two"): (10, 0, 90),
        ("small-eu", "old"): (1, 0, 10),
    }
    assert store.exports.count(HOUR, {"replica": ("one",)}) == 11  # those that met it, whoever answered
    assert store.objectives.oldest_entry() == rows[0].entry_start_ns


def test_failures_are_told_by_their_reason(store: Store) -> None:
    store.writer.insert_requests(outage(), version=1)
    told = [
        (one.status, one.error_type, one.http_status, one.error_stage, one.requests)
        for one in store.requests.failures(HOUR)
    ]
    assert told == [("error", "no_replica", 503, "model", 200), ("rejected", "queue_full", 503, "model", 100)]
    assert {one.p50_ms for one in store.requests.failures(HOUR)} == {0.1}
    assert store.requests.failures(HOUR, {"status": ("ok",)}) == []


def test_ttft_of_unlike_definitions_is_never_merged(store: Store) -> None:
    rows = [row(1, ttft_ns=1_000_000), row(2, ttft_ns=9_000_000, ttft_definition="client"), row(3, ttft_ns=None)]
    store.writer.insert_requests(rows, version=1)
    report = store.latency.report(HOUR)
    assert report.ttft_count == {"gateway": 1, "client": 1}
    assert report.ttft_ms == {"gateway": Quantiles(1, 1, 1), "client": Quantiles(9, 9, 9)}


def test_an_empty_window_is_empty_not_an_error(store: Store) -> None:
    report = store.latency.report(HOUR)
    assert (report.requests, report.e2e_ms, report.stages, report.newest_ns) == (0, None, {}, None)
    assert store.latency.totals(HOUR) == Totals(0, 0, None, None)
    assert store.latency.reports_by(HOUR, {}, "model") == []
    assert store.latency.groups(HOUR, {}, "model") == {}
    assert store.latency.series(HOUR, {}, 60) == []
    assert store.overview.health(HOUR, "pool") == []
    assert store.overview.values(HOUR, ["model"]) == {"model": []}


def test_a_series_has_a_point_for_each_step_with_requests_and_gaps_where_there_are_none(store: Store) -> None:
    rows = [row for row in random_rows(3000, seed=5) if not 600 <= (row.entry_start_ns - NOON_NS) // S < 1200]
    store.writer.insert_requests(rows, version=1)
    points = store.latency.series(HOUR, None, 300)
    steps = {row.entry_start_ns // (300 * S) * 300 * S for row in rows}
    assert [point.start_ns for point in points] == sorted(steps)
    for point in points:
        inside = [row for row in rows if point.start_ns <= row.entry_start_ns < point.start_ns + 300 * S]
        assert point.requests == len(inside)
        assert point.errors == sum(row.status in ("error", "rejected") for row in inside)
        assert point.cancelled == sum(row.status == "cancelled" for row in inside)
        inside = answered(inside)
        assert_quantiles(point.e2e_ms, np.array([row.e2e_ns for row in inside]) / 1e6)
        for definition, quantiles in point.ttft_ms.items():
            values = [row.ttft_ns for row in inside if row.ttft_definition == definition and row.ttft_ns is not None]
            assert_quantiles(quantiles, np.array(values) / 1e6)
        assert_stacks(point.stack_ms, inside)


def test_an_outline_is_the_report_and_the_series_without_stages(store: Store) -> None:
    store.writer.insert_requests(random_rows(900, seed=5), version=1)
    every: list[Filters] = [{}, {"status": ("error", "cancelled")}, {"model": ("nobody",)}]
    for filters in every:
        report, points = store.latency.outline(HOUR, filters, 300)
        assert report == replace(store.latency.report(HOUR, filters), stages={})
        assert points == [replace(point, stack_ms={}) for point in store.latency.series(HOUR, filters, 300)]


def test_a_chart_of_the_most_steps_is_drawn(store: Store) -> None:
    rows = random_rows(9000, seed=6)
    store.writer.insert_requests(rows, version=1)
    points = store.latency.series(Window(NOON_NS, NOON_NS + MAX_POINTS * S), None, 1)
    inside = [row for row in rows if NOON_NS <= row.entry_start_ns < NOON_NS + MAX_POINTS * S]
    assert sum(point.requests for point in points) == len(inside)
    assert len(points) == len({row.entry_start_ns // S for row in inside}) > 1000


def test_health_and_choices_come_by_value(store: Store) -> None:
    rows = random_rows(300, seed=9)
    store.writer.insert_requests(rows, version=1)
    for found in store.overview.health(HOUR, "model"):
        own = [row for row in rows if row.model == found.value]
        assert (found.requests, found.newest_ns) == (len(own), max(row.end_ns for row in own))
        assert found.errors == sum(row.status in ("error", "rejected") for row in own)
        assert found.p95_ms == pytest.approx(np.quantile([row.e2e_ns / 1e6 for row in answered(own)], 0.95))
    assert store.overview.values(HOUR, ["prompt_bucket", "status"]) == choices(rows, "prompt_bucket", "status")


@pytest.mark.parametrize(
    ("window", "step_s", "says"),
    [
        (HOUR, 0, "step"),
        (HOUR, -1, "step"),
        (Window(0, 10**18), 1, "5000 steps"),
        (Window(2, 1), 1, "from_ns <= to_ns"),
    ],
)
def test_a_chart_that_cannot_be_is_refused(window: Window, step_s: int, says: str) -> None:
    with pytest.raises(StoreInputError, match=says):
        UNASKED.latency.series(window, {}, step_s)
