"""Ticks over a real store: every window's count equals the ledger's, with late and amended rows, and after restarts."""

import random
from dataclasses import replace
from datetime import UTC, datetime

from controlplane.slo.core.counts import Counts
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.sli import Latency
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.keys import key_of
from tests.support.slo.evaluations import NOW_S, NS, UP, assert_equals_the_ledger, evaluated, swept
from tests.support.slo.ledger_rows import rows, stored

FAST = Objective("fast", "", Latency("e2e", 250.0), 0.5, scope={"model": "chat-large"}, period=Rolling(4 * DAY_S))
MONTHLY = replace(UP, slug="monthly", period=Calendar("week", datetime(2020, 1, 6), "UTC"))
PER_REGION = replace(UP, slug="per-region", split_by=("region",))
OBJECTIVES = (UP, FAST, MONTHLY, PER_REGION)


def test_windows_and_periods_count_what_the_ledger_has_and_after_a_restart_what_it_had(store: Store) -> None:
    """Old hours come from the store's tallies then, without the ledger."""
    ledger = stored(store, 1, 2_000, NOW_S - 4 * DAY_S, NOW_S)
    evaluator = Evaluator(store)
    before = evaluator.tick(OBJECTIVES, [], NOW_S * NS)
    swept(evaluator)
    found = evaluator.tick(OBJECTIVES, [], NOW_S * NS)

    assert {one.alert.state for one in before} <= {"unknown", "firing"}
    assert len(found) == 5
    assert_equals_the_ledger(found, ledger)
    assert "unknown" not in {one.alert.state for one in found}
    first_s = min(row.entry_start_ns for row in ledger) // NS
    assert {one.recorded_since_s for one in evaluated(Evaluator(store), OBJECTIVES)} == {first_s}

    old = [row for row in ledger if row.entry_start_ns < (NOW_S - 80 * HOUR_S) * NS]
    store.writer.withdraw_requests([key_of(row) for row in old], version=9)
    assert_equals_the_ledger(evaluated(Evaluator(store), OBJECTIVES), ledger)


def test_late_and_changed_rows_are_counted(store: Store) -> None:
    source = random.Random(2)
    ledger = rows(source, 600, (NOW_S - HOUR_S) * NS, NOW_S * NS)
    store.writer.insert_requests(ledger, 1)
    evaluator = Evaluator(store)
    evaluated(evaluator, OBJECTIVES)

    late = rows(source, 200, (NOW_S - 240) * NS, NOW_S * NS)
    amended = [replace(row, status="error", error_type="") for row in ledger if row.entry_start_ns > (NOW_S - 200) * NS]
    store.writer.insert_requests([*late, *amended], 2)
    names = {row.request_id for row in amended}
    now = [*(row for row in ledger if row.request_id not in names), *amended, *late]

    assert amended
    assert_equals_the_ledger(evaluator.tick(OBJECTIVES, [], (NOW_S + 5) * NS), now, NOW_S + 5)


def test_rows_that_come_hours_late_are_counted_in_the_next_round(store: Store) -> None:
    source = random.Random(3)
    evaluator = Evaluator(store, retention_s=8 * HOUR_S)
    ledger = rows(source, 300, (NOW_S - 7 * HOUR_S) * NS, NOW_S * NS)
    store.writer.insert_requests(ledger, 1)
    evaluator.tick(OBJECTIVES, [], NOW_S * NS)
    swept(evaluator)
    late = rows(source, 100, (NOW_S - 5 * HOUR_S) * NS, (NOW_S - 4 * HOUR_S) * NS)
    store.writer.insert_requests(late, 1)
    for _ in range(16):
        evaluator.sweep(NOW_S * NS)

    assert_equals_the_ledger(evaluator.tick(OBJECTIVES, [], NOW_S * NS), [*ledger, *late])


def test_after_a_pause_the_missed_time_is_counted_before_a_state_is_quiet(store: Store) -> None:
    source = random.Random(8)
    ledger = rows(source, 300, (NOW_S - HOUR_S) * NS, NOW_S * NS)
    store.writer.insert_requests(ledger, 1)
    evaluator = Evaluator(store)
    evaluated(evaluator, [UP])
    later_s = NOW_S + 1_800
    ledger += rows(source, 300, NOW_S * NS, later_s * NS)
    store.writer.insert_requests(ledger, 2)

    evaluator.tick([UP], [], later_s * NS)
    assert evaluator.behind
    swept(evaluator, later_s)
    assert_equals_the_ledger(evaluator.tick([UP], [], later_s * NS), ledger, later_s)


def test_maintenance_entered_afterwards_removes_what_was_counted(store: Store) -> None:
    ledger = stored(store, 5, 500, NOW_S - 6 * HOUR_S, NOW_S)
    evaluator = Evaluator(store)
    evaluator.tick([UP], [], NOW_S * NS)
    swept(evaluator)
    start_s = (NOW_S - 4 * HOUR_S) // 60 * 60
    planned = MaintenanceWindow("driver", datetime.fromtimestamp(start_s, UTC).replace(tzinfo=None), "UTC", 2 * HOUR_S)
    [found] = evaluated(evaluator, [UP], [planned])

    left = [row for row in ledger if not start_s <= row.entry_start_ns / NS < start_s + 2 * HOUR_S]
    assert_equals_the_ledger([found], left)
    assert not found.alert.maintenance
    [inside] = evaluator.tick([UP], [replace(planned, duration_s=5 * HOUR_S)], NOW_S * NS)
    assert inside.alert.maintenance


def test_an_objective_is_not_said_to_be_recorded_for_as_long_as_another_one(store: Store) -> None:
    """A new definition is counted of what the ledger still has."""
    ledger = stored(store, 6, 300, NOW_S - 12 * HOUR_S, NOW_S)
    evaluator = Evaluator(store)
    evaluated(evaluator, [UP])
    left = [row for row in ledger if row.entry_start_ns >= (NOW_S - 5 * HOUR_S) * NS]
    store.command("TRUNCATE TABLE requests")
    store.writer.insert_requests(left, 1)

    changed = replace(UP, slug="changed", scope={"region": "eu"})
    first_s = min(row.entry_start_ns for row in left) // NS
    oldest_hour = min(row.entry_start_ns for row in ledger) // NS // HOUR_S
    for later in (evaluator, Evaluator(store, retention_s=5 * HOUR_S)):
        found = {one.alert.objective.slug: one for one in evaluated(later, [UP, changed])}
        assert found["changed"].recorded_since_s == first_s
        assert found["changed"].counts.total < found["up"].counts.total
        assert found["up"].recorded_since_s == oldest_hour * HOUR_S, (
            "whether it counted those hours itself or loaded them"
        )


def test_of_an_empty_ledger_no_hours_before_it_are_counted(store: Store) -> None:
    evaluator = Evaluator(store)
    evaluator.tick(OBJECTIVES, [], NOW_S * NS)
    assert evaluator.behind == 1  # the one that goes on
    swept(evaluator)
    stored(store, 1, 10, NOW_S - 60, NOW_S)
    found = evaluated(Evaluator(store), [UP])
    assert found[0].recorded_since_s is not None and found[0].recorded_since_s >= NOW_S - 60


def test_what_the_ledger_has_no_longer_stays_counted(store: Store) -> None:
    """As where its retention was shorter before, and where maintenance is entered for a time that is gone."""
    ledger = stored(store, 7, 300, NOW_S - 12 * HOUR_S, NOW_S)
    evaluator = Evaluator(store, retention_s=12 * HOUR_S)
    evaluated(evaluator, [UP])
    store.command("TRUNCATE TABLE requests")
    store.writer.insert_requests(
        [row for row in ledger if row.entry_start_ns >= (NOW_S // HOUR_S - 5) * HOUR_S * NS], 1
    )
    evaluator.tick([UP], [], NOW_S * NS)
    for _ in range(26):
        evaluator.sweep(NOW_S * NS)
    assert_equals_the_ledger(evaluator.tick([UP], [], NOW_S * NS), ledger)
    long_ago = MaintenanceWindow(
        "late", datetime.fromtimestamp(NOW_S - 10 * HOUR_S, UTC).replace(tzinfo=None), "UTC", HOUR_S
    )
    assert_equals_the_ledger(evaluated(evaluator, [UP], [long_ago]), ledger)


PAGES = (BurnWindow("page", HOUR_S, 300, 0.02),)
PER_POOL = replace(UP, slug="per-pool", indicator=Latency("e2e", 250.0), split_by=("pool",))


def test_a_value_without_counted_requests_is_not_judged(store: Store) -> None:
    """Requests that were refused reached no pool, and have no latency."""
    ledger = rows(random.Random(3), 200, (NOW_S - 900) * NS, NOW_S * NS)
    failed = [replace(row, pool="", status="error") for row in ledger[:50]]
    store.writer.insert_requests([*failed, *(replace(row, pool="p") for row in ledger[50:])], 1)
    evaluator = Evaluator(store)
    found = [one for one in evaluated(evaluator, [UP, PER_POOL]) if one.alert.objective == PER_POOL]
    assert {one.alert.scope["pool"] for one in found} == {"p"}


def test_a_split_objective_without_values_has_no_events(store: Store) -> None:
    evaluator = Evaluator(store, retention_s=DAY_S)
    (found,) = evaluated(evaluator, [PER_POOL])
    assert (found.alert.state, found.alert.scope, found.counts) == ("quiet", {}, Counts())


def test_a_value_whose_events_are_older_than_the_period_is_dropped(store: Store) -> None:
    short = replace(UP, slug="short", split_by=("region",), period=Rolling(6 * HOUR_S), windows=PAGES)
    stored(store, 4, 50, NOW_S - 900, NOW_S)
    evaluator = Evaluator(store)
    assert len(evaluated(evaluator, [short])) > 1
    later_s = NOW_S + 8 * HOUR_S
    (found,) = evaluated(evaluator, [short], now_s=later_s)
    assert found.alert.scope == {}
