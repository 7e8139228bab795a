"""A long page is answered out of rollups: counts are exact and times within 0.5 %, whatever was written since they were built."""

import random
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Dimension, Filters, LatencyReport, Quantiles, Window
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.figures import BANDS, EMPTY, NOTHING
from controlplane.telemetry.store.read.histograms import BINS, MIDS, Histograms, bins_of
from controlplane.telemetry.store.write.keys import key_of
from inference.contract.stages import STAGES
from tests.support.telemetry.latency_figures import choices, part
from tests.support.telemetry.rollups import awake, fill
from tests.support.telemetry.samples import U64, S, answered, row

HOUR_NS = 3600 * S
SLOT_S = 12 * 3600
NOW_NS = time.time_ns()
START_NS = (NOW_NS - 15 * HOUR_NS) // (12 * HOUR_NS) * 12 * HOUR_NS
"""A day ago: five-minute rollups are kept for days."""
DAY = Window(START_NS - HOUR_NS - 77 * S, START_NS + 13 * HOUR_NS + 200 * S)
"""Half a day, whole hours and five minutes beside it, and parts of five minutes at both ends."""


def traffic(count: int = 1500, seed: int = 1) -> list[LedgerRow]:
    source = random.Random(seed)
    length_ns = DAY.to_ns - DAY.from_ns

    def spent() -> int:
        return int(source.lognormvariate(16, 1.5))

    return [
        row(
            number,
            entry_start_ns=DAY.from_ns + number * length_ns // (count + 1),
            stages={stage: source.choice([0, spent()]) for stage in STAGES} | {"model": spent()},
            unattributed_ns=source.randrange(100),
            ttft_ns=source.choice([None, spent()]),
            ttft_definition=source.choice(["gateway", "client"]),
            status=source.choice(["ok"] * 5 + ["error", "rejected", "cancelled"]),
            model=source.choice(["small", "large"]),
            tier=source.choice(["standard", "batch", ""]),
            unmeasured=source.random() < 0.2,
        )
        for number in range(1, count + 1)
    ]


def filled(store: Store, rows: Sequence[LedgerRow]) -> None:
    store.writer.insert_requests(rows, version=1)
    assert store.latency.rolled(DAY) is None, "nothing is built yet"
    fill(store, NOW_NS, together_s=SLOT_S)


@pytest.fixture(scope="module")
def rows(shared_store: Store) -> list[LedgerRow]:
    """What `shared_store` has, and its rollups."""
    rows = traffic()
    filled(shared_store, rows)
    return rows


def near(found: Quantiles | None, values_ms: np.ndarray) -> None:
    assert found is not None
    wanted = np.quantile(values_ms, [0.5, 0.95, 0.99], method="linear")
    assert [found.p50, found.p95, found.p99] == pytest.approx(wanted, rel=0.005)


def assert_near(report: LatencyReport, rows: Sequence[LedgerRow]) -> None:
    assert not report.exact
    assert report.requests == len(rows)
    assert report.errors == sum(one.status in ("error", "rejected") for one in rows)
    assert report.cancelled == sum(one.status == "cancelled" for one in rows)
    assert report.newest_ns == max(one.end_ns for one in rows)
    rows = answered(rows)
    assert report.unmeasured == sum(one.unmeasured for one in rows)
    near(report.e2e_ms, np.array([one.e2e_ns for one in rows]) / 1e6)
    for definition, count in report.ttft_count.items():
        ttft = [one.ttft_ns for one in rows if one.ttft_definition == definition and one.ttft_ns is not None]
        assert count == len(ttft)
        near(report.ttft_ms[definition], np.array(ttft) / 1e6)
    whole = sum(one.e2e_ns for one in rows) / 1e6
    for name, figures in report.stages.items():
        values = part(rows, name)
        near(Quantiles(figures.p50_ms, figures.p95_ms, figures.p99_ms), values)
        assert figures.mean_ms == pytest.approx(values.mean(), rel=0.001, abs=1e-3)
        assert figures.share == pytest.approx(values.sum() / whole, abs=0.001)
    assert sum(figures.share for figures in report.stages.values()) == pytest.approx(1)


def chosen(rows: Sequence[LedgerRow], filters: Filters) -> list[LedgerRow]:
    return [one for one in rows if all(getattr(one, name) in values for name, values in filters.items())]


def assert_pages(store: Store, every: Sequence[LedgerRow], filters: Filters, step_s: int = 1800) -> None:
    rows = chosen(every, filters)
    assert_near(store.latency.report(DAY, filters), rows)
    totals = store.latency.totals(DAY, filters)
    assert (totals.requests, totals.newest_ns) == (len(rows), max(one.end_ns for one in rows))
    points = store.latency.series(DAY, filters, step_s)
    step_ns = step_s * S
    assert [point.start_ns for point in points] == sorted({one.entry_start_ns // step_ns * step_ns for one in rows})
    for point in points:
        inside = [one for one in rows if point.start_ns <= one.entry_start_ns < point.start_ns + step_ns]
        assert (point.requests, point.cancelled) == (len(inside), sum(one.status == "cancelled" for one in inside))
        inside = answered(inside)
        if not inside:
            assert (point.e2e_ms, point.ttft_ms, point.stack_ms) == (None, {}, {})
            continue
        near(point.e2e_ms, np.array([one.e2e_ns for one in inside]) / 1e6)
        ordered = sorted(one.e2e_ns for one in inside)
        for band, (low, high) in BANDS.items():
            of_band = ordered[int(low * len(inside)) : int(high * len(inside)) + 1]
            assert sum(point.stack_ms[band].values()) == pytest.approx(np.mean(of_band) / 1e6, rel=0.005)
    groups = store.latency.groups(DAY, filters, "model")
    assert list(groups) == sorted({one.model for one in rows}, key=lambda model: (-groups[model].requests, model))
    for model, group in groups.items():
        inside = [one for one in rows if one.model == model]
        assert group.requests == len(inside)
        near(group.e2e_ms, np.array([one.e2e_ns for one in answered(inside)]) / 1e6)
        assert group.stages["model"].mean_ms == pytest.approx(part(answered(inside), "model").mean(), rel=0.001)


FILTERS: list[Filters] = [
    {},
    {"tier": ("standard", "")},
    {"model": ("small",)},
    {"status": ("ok", "error")},
    {"tier": ("batch",), "model": ("large",)},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_long_pages_say_what_the_requests_say(shared_store: Store, rows: list[LedgerRow], filters: Filters) -> None:
    assert_pages(shared_store, rows, filters)


def test_rows_that_come_late_or_change_count_at_once_and_after_the_next_build(store: Store) -> None:
    rows = traffic()
    filled(store, rows[:-300:2] + rows[-300:])
    late = rows[1:200:2]
    store.writer.insert_requests(late, version=1)
    amended = [row(int(one.trace_id, 16), entry_start_ns=one.entry_start_ns, tier="batch") for one in rows[10:14:2]]
    store.writer.insert_requests(amended, version=2)
    gone = rows[20]
    store.writer.withdraw_requests([key_of(gone)], version=3)
    now = {one.trace_id: one for one in [*rows[:-300:2], *rows[-300:], *late, *amended] if one is not gone}
    for _ in range(2):
        for filters in FILTERS[:2]:
            assert_pages(store, list(now.values()), filters)
        fill(store, NOW_NS, together_s=SLOT_S)


@pytest.mark.usefixtures("rows")
def test_short_pages_and_filters_that_rollups_lack_are_exact(shared_store: Store) -> None:
    store = shared_store
    assert store.latency.rolled(Window(START_NS, START_NS + 6 * HOUR_NS)) is None
    assert store.latency.rolled(DAY, {"tenant": ("acme",)}) is None
    assert store.latency.rolled(DAY, {"attribute": ("a=b",)}) is None
    assert store.latency.rolled(DAY, by="replica") is None
    assert store.latency.rolled(DAY, step_ns=1000 * S) is None
    assert store.latency.report(DAY, {"tenant": ("acme",)}).exact
    assert store.latency.rolled(DAY, {"tier": ()}) is not None


def test_a_long_heatmap_counts_every_answer_within_half_a_percent_of_its_row(
    shared_store: Store, rows: list[LedgerRow]
) -> None:
    cells = shared_store.explain.heatmap(DAY, {}, 1800, shared_store.latency.rolled(DAY, step_ns=1800 * S))
    exact = shared_store.explain.heatmap(DAY, {}, 1800)
    by_step = [Counter[int](), Counter[int]()]
    for counter, some in zip(by_step, (cells, exact), strict=True):
        for cell in some:
            counter[cell.start_ns] += cell.requests
    assert by_step[0] == by_step[1]
    e2e = np.array([one.e2e_ns for one in answered(rows)])
    for edge in {cell.low_ns for cell in [*cells, *exact]}:
        below = sum(cell.requests for cell in cells if cell.low_ns < edge)
        assert (e2e < 0.995 * edge).sum() <= below <= (e2e < 1.005 * edge).sum()


def test_health_by_value_is_of_rollups_too(shared_store: Store, rows: list[LedgerRow]) -> None:
    health = {one.value: one for one in shared_store.overview.health(DAY, "tier")}
    assert {value: one.requests for value, one in health.items()} == {
        tier: sum(one.tier == tier for one in rows) for tier in ("", "batch", "standard")
    }


OFFERED: tuple[Dimension, ...] = ("model", "status", "tenant", "tier", "cache", "prompt_bucket")


def test_filters_of_a_long_page_offer_what_the_requests_have(store: Store) -> None:
    rows = traffic(300)
    filled(store, rows)
    late = row(10**6, entry_start_ns=DAY.from_ns + 3 * HOUR_NS, model="late")
    store.writer.insert_requests([late], version=1)
    rolled = store.latency.counts(DAY, ["model"])
    assert rolled is not None and rolled["model"]["late"] == 1
    assert store.overview.values(DAY, OFFERED) == choices([*rows, late], *OFFERED)


def test_a_long_page_of_nothing_is_of_rollups_and_empty(shared_store: Store, rows: list[LedgerRow]) -> None:
    nobody: Filters = {"model": ("nobody",)}
    rolled = shared_store.latency.rolled(DAY, nobody, 1800 * S)
    assert rolled is not None and not rolled.keys
    latency, explain = shared_store.latency, shared_store.explain
    assert latency.report(DAY, nobody, rolled) == EMPTY and latency.totals(DAY, nobody) == NOTHING
    assert latency.series(DAY, nobody, 1800, rolled) == explain.heatmap(DAY, nobody, 1800, rolled) == []
    assert latency.groups(DAY, nobody, "model") == {}


def test_a_day_of_which_short_steps_are_no_longer_kept_has_its_requests(store: Store) -> None:
    length_ns = 24 * HOUR_NS
    day = Window((NOW_NS // HOUR_NS - 46) * HOUR_NS, (NOW_NS // HOUR_NS - 22) * HOUR_NS)
    rows = [row(number, entry_start_ns=day.from_ns + number * length_ns // 301) for number in range(1, 301)]
    store.writer.insert_requests(rows, version=1)
    then_ns = NOW_NS - 10 * HOUR_NS  # minutes were no longer filled of that time
    fill(store, then_ns, together_s=SLOT_S)
    assert store.latency.rolled(day, step_ns=3600 * S)
    tables = ("rollups", "rollup_slices")
    with awake(store, *tables):
        for table in tables:  # as their TTL does, day by day
            store.command(f"DELETE FROM {table} WHERE step_s < 3600 AND start_s < {NOW_NS // S - 40 * 3600}")
    points = store.latency.series(day, {}, 1800)
    assert sum(point.requests for point in points) == len(rows)
    assert store.latency.report(day).requests == len(rows)


@given(st.lists(U64, min_size=1, max_size=50))
def test_a_bin_is_within_half_a_percent_of_its_values(values: list[int]) -> None:
    array = np.array(sorted(values), np.uint64)
    bins = bins_of(array)
    assert (np.diff(bins) >= 0).all()
    assert (bins < BINS).all()
    assert MIDS[bins] == pytest.approx(array.astype(np.float64), rel=0.004)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=200))
def test_quantiles_of_a_histogram_are_within_half_a_percent(values: list[int]) -> None:
    counts = np.bincount(bins_of(np.array(values, np.uint64)), minlength=BINS).astype(np.float64)
    used = int(np.flatnonzero(counts)[0])
    for first in (0, used):
        histograms = Histograms.of(np.stack([counts, np.zeros(BINS), 3 * counts])[:, first:], first)
        of_values, of_none, of_thrice = histograms.quantiles([0.5, 0.95, 0.99])
        assert of_values == pytest.approx(np.quantile(values, [0.5, 0.95, 0.99]), rel=0.005)
        assert of_thrice == pytest.approx(np.quantile(np.repeat(values, 3), [0.5, 0.95, 0.99]), rel=0.005)
        assert np.isnan(of_none).all()
        whole = histograms.means(np.array([[(0, len(values))]] * 3))
        assert whole[[0, 2], 0] == pytest.approx(
            [np.mean(values), np.sort(np.repeat(values, 3))[: len(values)].mean()], rel=0.005
        )
        assert np.isnan(whole[1, 0])
