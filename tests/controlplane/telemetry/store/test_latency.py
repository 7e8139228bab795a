"""The figures of the latency page are those numpy finds on the same rows."""

from collections.abc import Sequence

import numpy as np
import pytest

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.columns import PARTS
from controlplane.telemetry.store.figures import BANDS
from controlplane.telemetry.store.latency import MAX_POINTS
from controlplane.telemetry.store.types import LatencyReport, Quantiles, StageShare, Totals, Window

from .samples import HOUR, NOON_NS, S, random_rows, row


def part(rows: Sequence[LedgerRow], name: str) -> np.ndarray:
    return np.array([row.unattributed_ns if name == "unattributed" else row.stages[name] for row in rows]) / 1e6


def assert_quantiles(found: Quantiles | None, values_ms: np.ndarray) -> None:
    assert found is not None
    assert [found.p50, found.p95, found.p99] == pytest.approx(
        np.quantile(values_ms, [0.5, 0.95, 0.99], method="linear")
    )


def assert_report(report: LatencyReport, rows: Sequence[LedgerRow]) -> None:
    e2e = np.array([row.e2e_ns for row in rows]) / 1e6
    assert report.requests == len(rows)
    assert report.errors == sum(row.status in ("error", "rejected") for row in rows)
    assert report.newest_ns == max(row.end_ns for row in rows)
    assert_quantiles(report.e2e_ms, e2e)
    for definition, count in report.ttft_count.items():
        values = [row.ttft_ns for row in rows if row.ttft_definition == definition and row.ttft_ns is not None]
        assert count == len(values)
        assert_quantiles(report.ttft_ms[definition], np.array(values) / 1e6)
    low, median, high = np.quantile(e2e, [0.4, 0.5, 0.6])
    above, middle = e2e > median, (e2e >= low) & (e2e <= high)
    if not middle.any():
        middle[:] = True
    for name, figures in report.stages.items():
        values = part(rows, name)
        assert [figures.p50_ms, figures.p95_ms, figures.p99_ms] == pytest.approx(np.quantile(values, [0.5, 0.95, 0.99]))
        assert figures.mean_ms == pytest.approx(values.mean())
        assert figures.share == pytest.approx(values.sum() / e2e.sum())
        if above.any():
            excess = e2e[above].mean() - e2e[middle].mean()
            assert figures.share_above_median == pytest.approx((values[above].mean() - values[middle].mean()) / excess)
        else:
            assert figures.share_above_median == 0
    assert sum(figures.share for figures in report.stages.values()) == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 10, 100, 2003])
def test_a_report_is_exact(store: Store, count: int) -> None:
    rows = random_rows(count, seed=count)
    store.insert_requests(rows, version=1)
    assert_report(store.latency(HOUR), rows)


def test_requests_that_took_equally_long_have_no_excess(store: Store) -> None:
    rows = [row(number) for number in range(1, 8)]
    store.insert_requests(rows, version=1)
    assert_report(store.latency(HOUR), rows)


def test_requests_that_took_no_time_have_no_shares_and_no_error(store: Store) -> None:
    store.insert_requests([row(1, stages={"queue": 0, "model": 0})], version=1)
    assert {figures.share for figures in store.latency(HOUR).stages.values()} == {0.0}


def test_a_report_by_dimension_is_each_value_s_own(store: Store) -> None:
    rows = random_rows(800, seed=3)
    store.insert_requests(rows, version=1)
    reports = store.latency_by(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    assert {value for value, _ in reports} == {"", "0-127", "512-1023", "131072+"}
    assert [report.requests for _, report in reports] == sorted(
        (report.requests for _, report in reports), reverse=True
    )
    for value, report in reports:
        assert_report(report, [row for row in rows if row.prompt_bucket == value and row.status in ("ok", "error")])


def test_groups_and_totals_are_the_report_without_what_pages_do_not_show(store: Store) -> None:
    rows = random_rows(800, seed=4)
    store.insert_requests(rows, version=1)
    groups = store.groups(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    reports = store.latency_by(HOUR, {"status": ("ok", "error")}, "prompt_bucket")
    assert list(groups) == [value for value, _ in reports]
    for value, report in reports:
        group = groups[value]
        assert (group.requests, group.errors, group.e2e_ms) == (report.requests, report.errors, report.e2e_ms)
        for name, figures in report.stages.items():
            assert group.stages[name] == StageShare(figures.mean_ms, figures.share, figures.share_above_median)
    report, totals = store.latency(HOUR), store.totals(HOUR)
    assert totals == Totals(report.requests, report.errors, report.e2e_ms, report.newest_ns)


def test_ttft_of_unlike_definitions_is_never_merged(store: Store) -> None:
    rows = [row(1, ttft_ns=1_000_000), row(2, ttft_ns=9_000_000, ttft_definition="client"), row(3, ttft_ns=None)]
    store.insert_requests(rows, version=1)
    report = store.latency(HOUR)
    assert report.ttft_count == {"gateway": 1, "client": 1}
    assert report.ttft_ms == {"gateway": Quantiles(1, 1, 1), "client": Quantiles(9, 9, 9)}


def test_an_empty_window_is_empty_not_an_error(store: Store) -> None:
    report = store.latency(HOUR)
    assert (report.requests, report.e2e_ms, report.stages, report.newest_ns) == (0, None, {}, None)
    assert store.totals(HOUR) == Totals(0, 0, None, None)
    assert store.latency_by(HOUR, {}, "model") == []
    assert store.groups(HOUR, {}, "model") == {}
    assert store.latency_series(HOUR, {}, 60) == []
    assert store.health(HOUR, "pool") == []
    assert store.values(HOUR, "model") == []


def test_a_series_has_a_point_for_each_step_with_requests_and_gaps_where_there_are_none(store: Store) -> None:
    rows = [row for row in random_rows(3000, seed=5) if not 600 <= (row.entry_start_ns - NOON_NS) // S < 1200]
    store.insert_requests(rows, version=1)
    points = store.latency_series(HOUR, None, 300)
    steps = {row.entry_start_ns // (300 * S) * 300 * S for row in rows}
    assert [point.start_ns for point in points] == sorted(steps)
    for point in points:
        inside = [row for row in rows if point.start_ns <= row.entry_start_ns < point.start_ns + 300 * S]
        assert point.requests == len(inside)
        assert point.errors == sum(row.status in ("error", "rejected") for row in inside)
        assert_quantiles(point.e2e_ms, np.array([row.e2e_ns for row in inside]) / 1e6)
        for definition, quantiles in point.ttft_ms.items():
            values = [row.ttft_ns for row in inside if row.ttft_definition == definition and row.ttft_ns is not None]
            assert_quantiles(quantiles, np.array(values) / 1e6)
        assert_stacks(point.stack_ms, inside)


def test_a_chart_of_the_most_steps_is_drawn(store: Store) -> None:
    rows = random_rows(9000, seed=6)
    store.insert_requests(rows, version=1)
    points = store.latency_series(Window(NOON_NS, NOON_NS + MAX_POINTS * S), None, 1)
    inside = [row for row in rows if NOON_NS <= row.entry_start_ns < NOON_NS + MAX_POINTS * S]
    assert sum(point.requests for point in points) == len(inside)
    assert len(points) == len({row.entry_start_ns // S for row in inside}) > 1000


@pytest.mark.parametrize("count", [1, 2, 5, 11])
def test_a_band_holds_a_request_however_few_there_are(store: Store, count: int) -> None:
    rows = random_rows(count, seed=count)
    store.insert_requests(rows, version=1)
    [point] = store.latency_series(HOUR, None, 86400)
    assert_stacks(point.stack_ms, rows)


def assert_stacks(stacks: dict[str, dict[str, float]], rows: Sequence[LedgerRow]) -> None:
    ordered = np.sort([row.e2e_ns for row in rows])
    for band, (low, high) in BANDS.items():
        first, last = ordered[int(low * len(rows))], ordered[int(high * len(rows))]
        chosen = [row for row in rows if first <= row.e2e_ns <= last]
        assert chosen
        for name in PARTS:
            assert stacks[band][name] == pytest.approx(part(chosen, name).mean())
        assert sum(stacks[band].values()) == pytest.approx(np.mean([row.e2e_ns for row in chosen]) / 1e6)


def test_health_and_choices_come_by_value(store: Store) -> None:
    rows = random_rows(300, seed=9)
    store.insert_requests(rows, version=1)
    for found in store.health(HOUR, "model"):
        own = [row for row in rows if row.model == found.value]
        assert (found.requests, found.newest_ns) == (len(own), max(row.end_ns for row in own))
        assert found.errors == sum(row.status in ("error", "rejected") for row in own)
        assert found.p95_ms == pytest.approx(np.quantile([row.e2e_ns / 1e6 for row in own], 0.95))
    buckets = [row.prompt_bucket for row in rows if row.prompt_bucket]
    assert store.values(HOUR, "prompt_bucket") == sorted(set(buckets), key=lambda value: (-buckets.count(value), value))


@pytest.mark.parametrize("step_s", [0, -1])
def test_a_step_that_makes_no_chart_is_refused(store: Store, step_s: int) -> None:
    with pytest.raises(StoreInputError, match="step"):
        store.latency_series(HOUR, {}, step_s)


def test_too_many_steps_are_refused(store: Store) -> None:
    with pytest.raises(StoreInputError, match="5000 steps"):
        store.latency_series(Window(0, 10**18), {}, 1)


def test_a_window_that_ends_before_it_begins_is_refused(store: Store) -> None:
    with pytest.raises(StoreInputError, match="from_ns <= to_ns"):
        store.latency(Window(2, 1))
