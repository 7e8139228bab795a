"""A long page is answered out of sorted half hours, and says what the requests say, whatever was written since."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from controlplane.telemetry.core.query_types import LatencyReport, Window
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance import presort
from controlplane.telemetry.store.read import presorted
from controlplane.telemetry.store.read.presorted import HALF_HOUR_NS
from controlplane.telemetry.store.write.withdraw import key_of
from tests.support.telemetry.latency_figures import assert_quantiles, assert_report, assert_stacks
from tests.support.telemetry.samples import S, answered, random_rows, row

HALF_HOURS = 8
ALL = list(range(HALF_HOURS))
FIRST_NS = 1_790_000_000 * S // HALF_HOUR_NS * HALF_HOUR_NS
DAY = Window(FIRST_NS - HALF_HOUR_NS // 3, FIRST_NS + HALF_HOURS * HALF_HOUR_NS + HALF_HOUR_NS // 2)
"""Whole half hours, a part of one before and of one after."""
LATER_NS = FIRST_NS + 100 * HALF_HOUR_NS


@pytest.fixture(autouse=True)
def _few_requests_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(presorted, "LEAST", 1)
    yield


def traffic(count: int = 3000, seed: int = 1) -> list[LedgerRow]:
    """Evenly over the day, of which FIRST_NS is not the beginning."""
    length_ns = DAY.to_ns - DAY.from_ns
    return [
        row(
            number,
            entry_start_ns=DAY.from_ns + number * length_ns // (count + 1),
            **{
                name: getattr(one, name)
                for name in ("stages", "unattributed_ns", "ttft_ns", "ttft_definition", "status", "model", "unmeasured")
            },
        )
        for number, one in enumerate(random_rows(count, seed), 1)
    ]


def assert_answers(store: Store, rows: Sequence[LedgerRow], step_s: int = 1800) -> None:
    """Of all questions that sorted half hours may answer."""
    assert_report(store.latency(DAY), rows)
    totals = store.totals(DAY)
    assert (totals.requests, totals.newest_ns) == (len(rows), max(one.end_ns for one in rows))
    points = store.latency_series(DAY, None, step_s)
    assert [point.start_ns for point in points] == sorted(
        {one.entry_start_ns // (step_s * S) * step_s * S for one in rows}
    )
    for point in points:
        inside = [one for one in rows if point.start_ns <= one.entry_start_ns < point.start_ns + step_s * S]
        assert (point.requests, point.errors) == (
            len(inside),
            sum(one.status in ("error", "rejected") for one in inside),
        )
        assert point.cancelled == sum(one.status == "cancelled" for one in inside)
        inside = answered(inside)
        if not inside:
            assert (point.e2e_ms, point.ttft_ms, point.stack_ms) == (None, {}, {})
            continue
        assert_quantiles(point.e2e_ms, np.array([one.e2e_ns for one in inside]) / 1e6)
        for definition, quantiles in point.ttft_ms.items():
            ttft = [one.ttft_ns for one in inside if one.ttft_definition == definition and one.ttft_ns is not None]
            assert_quantiles(quantiles, np.array(ttft) / 1e6)
        assert_stacks(point.stack_ms, inside)
    groups = store.groups(DAY, None, "model")
    assert list(groups) == sorted({one.model for one in rows}, key=lambda model: (-groups[model].requests, model))
    for model, report in store.latency_by(DAY, None, "model"):  # by requests
        group = groups[model]
        assert (group.requests, group.errors, group.cancelled) == (report.requests, report.errors, report.cancelled)
        if report.e2e_ms is None:
            assert (group.e2e_ms, group.stages) == (None, {})
            continue
        assert group.e2e_ms == pytest_approx(report)
        for name, figures in report.stages.items():
            share = group.stages[name]
            assert (share.mean_ms, share.share, share.share_above_median) == pytest.approx(
                (figures.mean_ms, figures.share, figures.share_above_median)
            )


def pytest_approx(report: LatencyReport) -> object:
    assert report.e2e_ms is not None
    return type(report.e2e_ms)(
        *(pytest.approx(one) for one in (report.e2e_ms.p50, report.e2e_ms.p95, report.e2e_ms.p99))
    )


def builds(store: Store, window: Window = DAY) -> list[int]:
    """The sorted half hours that a question about the window would use."""
    found = store.presorted(window)
    return [build.half_hour - FIRST_NS // HALF_HOUR_NS for build in found.builds] if found else []


def test_half_hours_say_what_requests_say(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    assert builds(store) == []
    assert store.presort(LATER_NS, 60) == HALF_HOURS + 2
    assert builds(store) == ALL
    for step_s in (1800, 3600, 86400):
        assert_answers(store, rows, step_s)


def test_chart_steps_that_are_no_whole_half_hours_are_asked_of_requests(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert_answers(store, rows, 600)


def test_a_filter_is_asked_of_requests(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert_report(store.latency(DAY, {"model": ("small",)}), [one for one in rows if one.model == "small"])


def test_what_is_written_later_counts_at_once_and_is_sorted_the_next_time(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows[:-100], version=1)
    store.presort(LATER_NS, 60)
    late = [row(90_001, entry_start_ns=FIRST_NS + 1), row(90_002, entry_start_ns=FIRST_NS + HALF_HOUR_NS - 1)]
    store.insert_requests([*late, *rows[-100:]], version=1)
    assert builds(store) == ALL[1:]
    assert_answers(store, rows + late)
    assert store.presort(LATER_NS, 60) == 2  # the first and the last
    assert builds(store) == ALL
    assert_answers(store, rows + late)


def test_an_amended_request_counts_once_and_as_amended(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    old = next(one for one in rows if one.entry_start_ns >= FIRST_NS)
    new = row(
        int(old.request_id, 16), entry_start_ns=old.entry_start_ns, stages={"model": 9_000_000_000}, model="large"
    )
    store.insert_requests([new], version=2)
    amended = [new if one is old else one for one in rows]
    assert_answers(store, amended)
    store.presort(LATER_NS, 60)
    assert builds(store) == ALL
    assert_answers(store, amended)


def test_a_request_that_is_taken_back_is_gone(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    gone = next(one for one in rows if one.entry_start_ns >= FIRST_NS)
    store.withdraw_requests([key_of(gone)], version=9)
    left = [one for one in rows if one is not gone]
    assert_answers(store, left)
    store.presort(LATER_NS, 60)
    assert_answers(store, left)


def test_a_half_hour_of_which_nothing_is_left_has_nothing_to_say(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    gone = [one for one in rows if FIRST_NS <= one.entry_start_ns < FIRST_NS + HALF_HOUR_NS]
    store.withdraw_requests([key_of(one) for one in gone], version=9)
    store.presort(LATER_NS, 60)
    assert builds(store) == ALL
    assert_answers(store, [one for one in rows if one not in gone])
    store.withdraw_requests([key_of(one) for one in rows], version=9)
    store.presort(LATER_NS, 60)
    assert store.latency(DAY).requests == 0
    assert store.latency_series(DAY, None, 1800) == []


def test_a_half_hour_is_sorted_when_it_is_over_and_only_once(store: Store) -> None:
    store.insert_requests(traffic(), version=1)
    over_ns = FIRST_NS + 2 * HALF_HOUR_NS
    assert store.presort(over_ns + presort.SETTLED_NS - 1, 60) == 2
    assert store.presort(over_ns + presort.SETTLED_NS, 60) == 1
    assert store.presort(over_ns + presort.SETTLED_NS, 60) == 0


def test_the_newest_are_sorted_first_and_no_longer_than_may_be(store: Store) -> None:
    store.insert_requests(traffic(), version=1)
    for first in reversed(ALL):
        assert store.presort(FIRST_NS + HALF_HOURS * HALF_HOUR_NS + presort.SETTLED_NS, 0) == 1
        builds, rest = store._usable_builds(DAY)
        assert [build.half_hour - FIRST_NS // HALF_HOUR_NS for build in builds] == ALL[first:]
        beside = first + 1 / 3 + 1 / 2
        assert (rest is None) == (
            beside > presorted.MOST_READ * (HALF_HOURS + 1 / 3 + 1 / 2)
        )  # then requests alone are asked


def test_a_half_hour_of_many_requests_is_sorted_in_slices(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presort, "AT_ONCE", 100)
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert builds(store) == ALL
    assert_answers(store, rows)


def test_models_too_many_to_tell_apart_are_asked_of_requests(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presorted, "MOST_MODELS", 1)
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert builds(store) == ALL
    assert store.presorted_figures(store.presorted(DAY), {"e2e": ((0.5,), ())}, by_model=True) is None
    assert_answers(store, rows)


def test_models_may_be_named_anything(store: Store) -> None:
    names = ["it's", "{x:String}", "back\\slash", "100 %", "-- FORMAT Null", "", "Größe"]
    rows = [
        row(number, entry_start_ns=one.entry_start_ns, model=names[number % len(names)])
        for number, one in enumerate(traffic(), 1)
    ]
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert store.presorted_figures(store.presorted(DAY), {"e2e": ((0.5,), ())}, by_model=True) is not None
    assert_answers(store, rows)


def test_a_question_that_would_open_too_much_is_asked_of_requests(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    monkeypatch.setattr(presorted, "MOST_OPENED", 10)
    assert store.presorted_figures(store.presorted(DAY), {"e2e": ((0.5,), ())}) is None
    assert_answers(store, rows)


def test_requests_that_all_took_equally_long_and_none_at_all_are_no_exception(store: Store) -> None:
    rows = [
        row(number, entry_start_ns=FIRST_NS + number * S, stages={"model": 5, "queue": 0}) for number in range(1, 1800)
    ]
    rows += [row(5000, entry_start_ns=FIRST_NS + HALF_HOUR_NS + S, stages={"model": 0, "queue": 0}, ttft_ns=None)]
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert builds(store) == [0, 1]
    assert_report(store.latency(DAY), rows)
    points = store.latency_series(DAY, None, 1800)
    assert [point.requests for point in points] == [1799, 1]
    assert points[1].stack_ms["p99"]["model"] == 0


def test_a_half_hour_and_a_model_of_which_nothing_was_answered_have_their_errors_and_no_latency(store: Store) -> None:
    rows = [
        row(
            number,
            entry_start_ns=one.entry_start_ns,
            status="error" if one.entry_start_ns < FIRST_NS + 2 * HALF_HOUR_NS else "cancelled" if number % 7 else "ok",
            model="gone" if number % 2 and one.entry_start_ns < FIRST_NS + 2 * HALF_HOUR_NS else "small",
        )
        for number, one in enumerate(traffic(), 1)
    ]
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    assert builds(store) == ALL
    assert store.groups(DAY, None, "model")["gone"].e2e_ms is None
    assert_answers(store, rows)


def test_half_hours_sorted_before_latency_was_of_answers_are_sorted_again(store: Store, dsn: str) -> None:
    from controlplane.telemetry.store import migrate

    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    store.command("DELETE FROM schema_versions WHERE version >= 10 SETTINGS mutations_sync = 2")
    migrate(dsn, 3650)
    assert builds(store) == []
    assert_answers(store, rows)
    assert store.presort(LATER_NS, 60) == HALF_HOURS + 2
    assert_answers(store, rows)


def test_a_half_hour_sorted_by_two_at_once_counts_once(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    store.command("TRUNCATE TABLE ranked")  # as the other had it when it began
    assert store.presort(LATER_NS, 60) == HALF_HOURS + 2
    assert_answers(store, rows)


def test_builds_that_no_longer_count_are_dropped_when_no_question_can_be_reading_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)

    def kept() -> int:
        [(count,)] = store.rows("SELECT uniqExact(build) FROM ranks")
        return int(count)

    store.insert_requests([row(90_001, entry_start_ns=FIRST_NS + 1)], version=1)
    store.presort(LATER_NS, 60)
    assert kept() == HALF_HOURS + 3
    monkeypatch.setattr(presort, "KEPT_NS", 0)
    store.insert_requests([row(90_002, entry_start_ns=FIRST_NS + 1)], version=1)
    store.presort(LATER_NS, 60)
    assert kept() == HALF_HOURS + 2
    assert builds(store) == ALL


def test_a_build_that_is_not_all_there_is_not_believed(store: Store) -> None:
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.presort(LATER_NS, 60)
    store.command("DELETE FROM ranks WHERE measure = 'e2e' AND bin % 2 = 0")  # say, a replica that has not got them yet
    assert (
        store.presorted_figures(store.presorted(DAY), {"e2e": ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), ())})
        is None
    )
    assert_answers(store, rows)


def test_rows_written_before_there_were_half_hours_are_sorted_too(store: Store, dsn: str) -> None:
    from controlplane.telemetry.store import migrate

    for table in ("touches", "touched", "ranked", "ranks"):
        store.command(f"DROP TABLE {table}")
    rows = traffic()
    store.insert_requests(rows, version=1)
    store.command("DELETE FROM schema_versions WHERE version >= 9 SETTINGS mutations_sync = 2")
    migrate(dsn, 3650)
    assert store.presort(LATER_NS, 60) == HALF_HOURS + 2
    assert_answers(store, rows)


def test_an_empty_store_has_nothing_to_sort(store: Store) -> None:
    assert store.presort(LATER_NS, 60) == 0
    assert store.latency_series(DAY, None, 1800) == []
