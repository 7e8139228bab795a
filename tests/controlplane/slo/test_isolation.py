"""An objective that cannot be judged has a reason, and affects no other."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from controlplane.controller.loop import Controller, Fence
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.count_plan import CountPlan
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Calendar, Objective, Rolling, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Latency
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.slo.models import Maintenance, ObjectiveState, StoredObjective
from controlplane.slo.save import save_objective
from controlplane.telemetry.store import Store, StoreError, StoreLimitError, StoreUnavailableError
from tests.support.slo.evaluations import NOW_S, NS, UP, assert_equals_the_ledger, evaluated, swept
from tests.support.slo.judging import is_good
from tests.support.slo.ledger_rows import rows, stored
from tests.support.soak import sized


def window(severity: str = "page", long_s: object = 3600) -> dict[str, object]:
    return {"severity": severity, "long_s": long_s, "short_s": 60, "budget_share": 0.1}


ODD: dict[str, Sequence[Any]] = {
    "target": (2.0, 0.0, -1.0, 1.0),
    "scope": ({"model": 5}, {"model": None}, ["a"], {"planet": "mars"}, {"tier": "x" * 5_000}, {"model": "chat-large"}),
    "split_by": (["planet"], ["region", "tier"], 5, ["tenant"]),
    "windows": ([], [{}], [{"severity": "page"}], "no", [window("odd")], [window(long_s="a")], [window(long_s=10**9)]),
    "period_s": (0, 60, 2**31 - 1),
    "period_kind": ("calendar", "lunar"),
    "calendar_unit": ("day", "eon"),
    "calendar_count": (0, 52),
    "calendar_start": ("soon", "0001-01-01T00:00:00", "9999-12-31T23:59:59", "2026-01-31T00:10:07"),
    "calendar_zone": ("Mars/Base", "Asia/Kolkata", "Australia/Lord_Howe"),
    "method": ("timeslices", "guesses"),
    "slice_s": (0, 7, 900, 1200, 3600, 10**6),
    "slice_target": (0.0, 2.0, 0.95),
    "indicator_kind": ("availability", "latency", "cost", "histogram", "magic"),
    "measure": ("queue", "colour", ""),
    "threshold_ms": (None, -1.0, 1e300, math.inf),
    "usd_per_1k_tokens": (None, 0.0, 1e-300, math.inf),
    "metric": ("", "absent", "x_bucket"),
    "metric_threshold": (None, math.inf, 1.0),
    "minimum_total": (0, 2**31 - 1),
}  # fmt: skip


class Seen:
    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}

    def observe(self, alerts: Sequence[Alert], now: datetime, fence: Fence) -> None:
        self.alerts = {alert.key: alert for alert in alerts}


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(sized(3, soak=30)))
def test_with_any_rows_the_valid_objective_is_judged_and_every_other_has_a_state(store: Store, seed: int) -> None:
    source = random.Random(seed)
    now = datetime.fromtimestamp(NOW_S, UTC)
    ledger = rows(source, 500, (NOW_S - HOUR_S) * NS, NOW_S * NS)
    store.writer.insert_requests(ledger, 1)
    save_objective(replace(UP, name="Up"), who="olga")
    for number in range(12):
        save_objective(replace(UP, slug=f"odd-{number}", name="Odd"), who="olga")
        fields = source.sample(sorted(ODD), source.randrange(1, 5))
        StoredObjective.objects.filter(slug=f"odd-{number}").update(
            **{name: source.choice(ODD[name]) for name in fields}
        )
    Maintenance.objects.create(name="odd", start="0001-01-01T00:00:00", zone="Mars/Base", reason="-", author="-")
    Maintenance.objects.create(
        name="early", start="0001-01-01T00:00:00", zone="Asia/Tokyo", rule="FREQ=DAILY", reason="-", author="-"
    )
    seen = Seen()
    made = Controller(store, settings.CONFIG.model_copy(update={"retention_days": 2}), seen.observe)
    made.step(now)
    swept(made.evaluator)
    outcome = made.step(now + timedelta(seconds=1))

    assert outcome.error == ""
    assert_equals_the_ledger([one for one in outcome.evaluations if one.alert.objective.slug == "up"], ledger)
    assert seen.alerts["up"].state != "unknown"
    states = {one.objective.slug: one for one in ObjectiveState.objects.select_related("objective")}
    assert states.keys() == {"up", *(f"odd-{number}" for number in range(12))}
    for one in states.values():
        assert one.state in ("firing", "quiet") or one.document["why"], one.key


def test_slices_that_do_not_divide_each_other_are_counted_side_by_side(store: Store) -> None:
    """Nine hundred and twelve hundred seconds: an hour is the first that holds whole slices of both."""
    ledger = stored(store, 1, 2_000, NOW_S - 6 * HOUR_S, NOW_S)
    sliced = [replace(UP, slug=f"s{length}", method=Timeslices(length, 0.6)) for length in (900, 1200, 1800, 60, 20)]
    evaluator = Evaluator(store)
    found = {one.alert.key: one for one in evaluated(evaluator, [UP, *sliced])}

    assert_equals_the_ledger([found.pop("up")], ledger)
    for one in found.values():
        length = one.alert.objective.method.slice_s  # type: ignore[union-attr]
        slices: dict[int, list[bool]] = {}
        for row in ledger:
            if (good := is_good(UP.indicator, row)) is not None:
                slices.setdefault(row.entry_start_ns // NS // length, []).append(good)
        assert one.counts.total == len(slices)
        assert one.counts.bad == sum(sum(goods) < 0.6 * len(goods) for goods in slices.values())


def test_a_query_that_fails_concerns_one_objective_and_is_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {3.0: StoreLimitError("the store ran out of memory"), 17.0: TypeError("'<'"), 18.0: StoreError("no")}
    ledger = stored(store, 6, 300, NOW_S - HOUR_S, NOW_S)
    objectives = [replace(UP, slug=f"o{number}", indicator=Latency("e2e", 1.0 + number)) for number in range(40)]
    classes_of, questions = store.objectives.classes, []

    def classes(window: Any, cuts: Any, dimensions: Any, step_s: int) -> Any:
        questions.append(len(cuts[0].thresholds))
        for failing in errors.keys() & {threshold for cut in cuts for threshold in cut.thresholds}:
            raise errors[failing]
        return classes_of(window, cuts, dimensions, step_s)

    monkeypatch.setattr(store.objectives, "classes", classes)
    evaluator = Evaluator(store)
    for _ in range(3):
        evaluator.tick(objectives, [], NOW_S * NS)
        swept(evaluator)
    questions.clear()
    found = {one.alert.key: one for one in evaluator.tick(objectives, [], NOW_S * NS)}
    assert questions[0] == 37  # those that are well need one question
    assert {key for key, one in found.items() if one.alert.state == "unknown"} == {"o2", "o16", "o17"}
    assert all(str(error) in found[f"o{threshold - 1:.0f}"].why for threshold, error in errors.items())
    assert_equals_the_ledger([one for one in found.values() if one.alert.state != "unknown"], ledger)

    errors.clear()
    assert_equals_the_ledger(evaluated(evaluator, objectives), ledger)


def test_a_store_without_memory_for_any_objective_cannot_be_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def classes(*given: Any) -> Any:
        raise StoreLimitError("the store ran out of memory")

    monkeypatch.setattr(store.objectives, "classes", classes)
    with pytest.raises(StoreUnavailableError):
        Evaluator(store).tick([UP, replace(UP, slug="other")], [], NOW_S * NS)


def test_an_objective_that_fails_while_it_is_counted_stops_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = stored(store, 6, 300, NOW_S - HOUR_S, NOW_S)
    counted = CountPlan.counting

    def counting(self: CountPlan, *given: Any) -> Any:
        found = counted(self, *given)
        real: Callable[[Any], Any] = found.requests

        def requests(task: Any) -> Any:
            if task.objective.slug == "odd":
                raise ZeroDivisionError("of this one alone")
            return real(task)

        found.requests = requests
        return found

    monkeypatch.setattr(CountPlan, "counting", counting)
    evaluator = Evaluator(store)
    found = {one.alert.key: one for one in evaluated(evaluator, [UP, replace(UP, slug="odd")])}
    assert (found["odd"].alert.state, found["odd"].why) == ("unknown", "ZeroDivisionError: of this one alone")
    assert_equals_the_ledger([found["up"]], ledger)


def test_while_it_cannot_be_counted_its_time_is_missing_afterwards(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator, classes_of, fails = Evaluator(store, retention_s=DAY_S), store.objectives.classes, [False]

    def classes(window: Any, cuts: Any, *more: Any) -> Any:
        if fails[0] and any(cut.measure == "cost" for cut in cuts):
            raise StoreError("no")
        return classes_of(window, cuts, *more)

    monkeypatch.setattr(store.objectives, "classes", classes)
    objectives = [UP, replace(UP, slug="dear", indicator=Cost(1.0))]
    evaluator.tick(objectives, [], NOW_S * NS)
    swept(evaluator)
    fails[0] = True
    for later_s in range(0, 1_200, 60):
        evaluator.tick(objectives, [], (NOW_S + later_s) * NS)
    ledger = rows(random.Random(7), 400, NOW_S * NS, (NOW_S + 1_200) * NS)
    ledger = [replace(row, cost_usd=row.cost_usd or 0.0) for row in ledger]
    store.writer.insert_requests(ledger, 1)
    fails[0] = False
    [_, dear] = evaluator.tick(objectives, [], (NOW_S + 1_260) * NS)
    assert (dear.alert.state, dear.why) == ("unknown", "its history is still being counted")
    swept(evaluator, NOW_S + 1_260)
    assert_equals_the_ledger(evaluator.tick(objectives, [], (NOW_S + 1_260) * NS)[1:], ledger, NOW_S + 1_260)


def test_an_hour_that_could_not_be_counted_is_still_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = stored(store, 8, 600, NOW_S - 5 * HOUR_S, NOW_S)
    classes_of, bad = store.objectives.classes, (NOW_S // HOUR_S - 2) * HOUR_S * NS
    fails = [True]

    def classes(window: Any, *more: Any) -> Any:
        if fails[0] and window.from_ns == bad:
            raise StoreError("this hour is damaged")
        return classes_of(window, *more)

    monkeypatch.setattr(store.objectives, "classes", classes)
    evaluator = Evaluator(store)
    evaluator.tick([UP], [], NOW_S * NS)
    for _ in range(20):
        evaluator.sweep(NOW_S * NS)
    [found] = evaluator.tick([UP], [], NOW_S * NS)
    assert found.alert.state == "unknown"
    assert "this hour is damaged" in found.why
    fails[0] = False
    for _ in range(20):
        evaluator.sweep(NOW_S * NS)
    assert_equals_the_ledger(evaluator.tick([UP], [], NOW_S * NS), ledger)


def test_an_hour_that_the_store_refused_is_written_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.writer.insert_requests(rows(random.Random(9), 400, (NOW_S - 5 * HOUR_S) * NS, NOW_S * NS), 1)
    insert, away = store.objectives.insert_tallies, [True]

    def insert_tallies(columns: Any) -> None:
        if away[0]:
            raise StoreUnavailableError("not now")
        insert(columns)

    monkeypatch.setattr(store.objectives, "insert_tallies", insert_tallies)
    evaluator = Evaluator(store)
    evaluator.tick([UP], [], NOW_S * NS)
    for _ in range(8):
        with pytest.raises(StoreUnavailableError):
            while evaluator.sweep(NOW_S * NS):
                pass
    away[0] = False
    for _ in range(12):
        evaluator.sweep(NOW_S * NS)
    [name] = {one.definition for one in evaluator._known.values()}
    kept = store.objectives.tallies([name], 0, NOW_S)["hour"].to_pylist()
    assert {NOW_S // HOUR_S - back for back in range(1, 6)} <= set(kept)


def test_hours_before_the_tallies_reach_are_not_written_as_empty(store: Store) -> None:
    """A short period needs few hours in memory; the ledger, and what is kept of it, go further back."""
    stored(store, 10, 400, NOW_S - 14 * HOUR_S, NOW_S)
    daily = replace(UP, period=Rolling(30 * DAY_S))
    first = Evaluator(store, retention_s=14 * HOUR_S)
    first.tick([daily], [], NOW_S * NS)
    swept(first)
    short = replace(UP, period=Rolling(6 * HOUR_S), windows=(BurnWindow("page", HOUR_S, 300, 0.02),))
    second = Evaluator(store, retention_s=14 * HOUR_S)
    second.tick([short], [], NOW_S * NS)
    for _ in range(28):
        second.sweep(NOW_S * NS)
    [name] = {one.definition for one in second._known.values()}
    kept = store.objectives.tallies([name], NOW_S // HOUR_S - 13, NOW_S // HOUR_S)
    assert all(sum(total) > 0 for total in kept["total"].to_pylist())


def test_maintenance_planned_while_the_store_was_away_is_applied_once_it_is_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = stored(store, 5, 500, NOW_S - 3 * HOUR_S, NOW_S)
    evaluator = Evaluator(store)
    evaluator.tick([UP], [], NOW_S * NS)
    swept(evaluator)
    start_s = (NOW_S - 2 * HOUR_S) // 60 * 60
    planned = MaintenanceWindow("driver", datetime.fromtimestamp(start_s, UTC).replace(tzinfo=None), "UTC", HOUR_S)
    other = replace(UP, slug="other")
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailableError):
        patch.setattr(store.objectives, "tallies", _away)
        evaluator.tick([UP, other], [planned], NOW_S * NS)
    evaluator.tick([UP], [planned], NOW_S * NS)
    swept(evaluator)
    left = [row for row in ledger if not start_s <= row.entry_start_ns / NS < start_s + HOUR_S]
    assert_equals_the_ledger(evaluator.tick([UP], [planned], NOW_S * NS), left)


def _away(*_: object) -> None:
    raise StoreUnavailableError("away")


def test_values_of_a_split_are_bounded_and_old_values_make_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.slo.evaluate.evaluator.MAX_SPLITS", 3)
    per_tenant = Objective("t", "", Availability(), 0.9, split_by=("tenant",), period=Rolling(6 * HOUR_S),
                           windows=(BurnWindow("page", HOUR_S, 300, 0.02),))  # fmt: skip
    evaluator = Evaluator(store)
    for number in range(5):
        at_s = NOW_S + 600 * number
        sample = rows(random.Random(number), 40, (at_s - 60) * NS, at_s * NS)
        store.writer.insert_requests(
            [replace(row, tenant=f"t{number}", status="ok", error_type="") for row in sample], 1
        )
        found = evaluator.tick([per_tenant], [], at_s * NS)
        swept(evaluator, at_s)
    assert {one.alert.scope["tenant"] for one in found} == {"t0", "t1", "t2"}
    assert "more than 3 values" in found[0].note
    later_s = NOW_S + 4 * DAY_S
    sample = rows(random.Random(9), 40, (later_s - 60) * NS, later_s * NS)
    store.writer.insert_requests([replace(row, tenant="new", status="ok", error_type="") for row in sample], 1)
    [found_now] = evaluated(evaluator, [per_tenant], now_s=later_s)
    assert (found_now.alert.scope, found_now.note) == ({"tenant": "new"}, "")


def test_a_value_of_any_length_has_a_key_that_fits_and_no_nul(store: Store) -> None:
    per = replace(UP, split_by=("tenant", "pool", "model"))
    sample = rows(random.Random(1), 3, (NOW_S - 60) * NS, NOW_S * NS)
    long = ["x" * 100_000, "x" * 99_999 + "y", "nul\0" + "ü" * 201]
    store.writer.insert_requests(
        [replace(row, tenant=text, pool=text, model=text, status="ok", error_type="") for row, text in zip(sample, long, strict=True)], 1
    )  # fmt: skip
    found = Evaluator(store).tick([per], [], NOW_S * NS)
    assert len({one.alert.key for one in found}) == 3
    for one in found:
        assert len(one.alert.key) <= 700
        assert all(len(value) <= 200 and "\0" not in value and "bytes" in value for value in one.alert.scope.values())


def test_a_calendar_on_the_half_hour_counts_from_its_own_midnight(store: Store) -> None:
    """Midnight in Kolkata is 18:30 UTC, and 18:15 in Kathmandu; a start may lie at any minute."""
    ledger = stored(store, 11, 600, NOW_S - 2 * DAY_S, NOW_S)
    objectives = [
        replace(UP, slug=f"{unit}-{number}", period=Calendar(unit, start, zone), windows=(BurnWindow("page", HOUR_S, 300, 0.02),))  # type: ignore[arg-type]
        for number, zone in enumerate(("Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"))
        for unit, start in (("day", datetime(2026, 1, 1)), ("week", datetime(2026, 1, 5, 2, 10)))
    ]  # fmt: skip
    sliced = [replace(one, slug=f"{one.slug}-s", method=Timeslices(600, 0.6)) for one in objectives]
    starts = {row.entry_start_ns // (600 * NS) * 600 * NS for row in ledger if is_good(UP.indicator, row) is not None}
    first = Evaluator(store)
    first.tick([*objectives, *sliced], [], NOW_S * NS)
    swept(first)
    for evaluator in (first, Evaluator(store)):  # what was kept, too
        found = evaluated(evaluator, [*objectives, *sliced])
        assert_equals_the_ledger([one for one in found if not one.alert.key.endswith("-s")], ledger)
        for one in found[len(objectives) :]:
            assert one.counts.total == sum(start >= one.period.from_ns for start in starts), one.alert.key
