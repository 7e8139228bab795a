"""History from the store equals counting the ledger row by row."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Rolling, Timeslices
from controlplane.slo.core.sli import Availability, Latency
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.replay.core.history import History
from controlplane.slo.replay.core.judge import judged
from controlplane.slo.replay.preview import preview
from controlplane.slo.replay.recorded_history import histories
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.objectives import ObjectiveReader
from tests.support.slo.judging import is_good
from tests.support.slo.ledger_rows import rows

NS = 10**9
FROM_S = 490_000 * HOUR_S
TO_S = FROM_S + 5 * HOUR_S + 30
UP = Objective("up", "Up", Availability(), 0.9, windows=(BurnWindow("page", HOUR_S, 300, 0.02),))
FAST = replace(UP, slug="fast", indicator=Latency("e2e", 250.0), scope={"model": "chat-large"})


@pytest.fixture(scope="module")
def ledger(shared_store: Store) -> list[LedgerRow]:
    found = rows(random.Random(3), 3_000, FROM_S * NS, (FROM_S + 5 * HOUR_S) * NS)
    shared_store.writer.insert_requests(found, 1)
    return found


def counted(ledger: Sequence[LedgerRow], objective: Objective, history: History) -> list[tuple[int, int]]:
    found = [(0, 0)] * history.steps
    for row in ledger:
        if all(getattr(row, name) == value for name, value in objective.scope.items()):
            good = is_good(objective.indicator, row)
            step = (row.entry_start_ns // NS - history.start_s) // history.step_s
            if good is not None:
                bad, total = found[step]
                found[step] = bad + (not good), total + 1
    return found


@pytest.mark.parametrize("objective", [UP, FAST])
def test_each_minute_is_counted_as_the_ledger_has_it(
    shared_store: Store, ledger: list[LedgerRow], objective: Objective
) -> None:
    [history] = histories(shared_store, objective, [], FROM_S + HOUR_S, TO_S).values()
    assert history.start_s == FROM_S
    assert history.end_s == FROM_S + 5 * HOUR_S
    assert history.first == 60
    assert list(zip(history.bad.tolist(), history.total.tolist(), strict=True)) == counted(ledger, objective, history)


def test_each_value_of_a_split_has_a_history_of_its_own(shared_store: Store, ledger: list[LedgerRow]) -> None:
    found = histories(shared_store, replace(UP, split_by=("region",)), [], FROM_S, TO_S)
    assert set(found) == {("eu",), ("us",)}
    for (region,), history in found.items():
        assert history.total.sum() == sum(
            is_good(UP.indicator, row) is not None for row in ledger if row.region == region
        )


def test_slices_are_events(shared_store: Store, ledger: list[LedgerRow]) -> None:
    [requests] = histories(shared_store, UP, [], FROM_S, TO_S).values()
    sliced = replace(UP, method=Timeslices(slice_s=300, slice_target=0.6))
    [history] = histories(shared_store, sliced, [], FROM_S, TO_S).values()
    bad, total = (counts.reshape(-1, 5).sum(axis=1) for counts in (requests.bad, requests.total))
    bad, total = bad[total > 0], total[total > 0]
    assert judged(history, sliced).events == ((total - bad < 0.6 * total).sum(), len(total))


def test_planned_maintenance_does_not_count(shared_store: Store, ledger: list[LedgerRow]) -> None:
    start = datetime.fromtimestamp(FROM_S + HOUR_S, UTC).replace(tzinfo=None)
    [history] = histories(shared_store, UP, [MaintenanceWindow("drivers", start, "UTC", HOUR_S)], FROM_S, TO_S).values()
    assert history.total[60:120].sum() == 0
    assert history.total[:60].sum() > 0


def test_without_any_request_there_are_no_steps(store: Store) -> None:
    [history] = histories(store, UP, [], FROM_S, TO_S).values()
    assert history.steps == 0
    assert histories(store, replace(UP, split_by=("tenant",)), [], FROM_S, TO_S) == {}


def test_history_begins_where_windows_and_period_begin(shared_store: Store, ledger: list[LedgerRow]) -> None:
    short = replace(UP, period=Rolling(2 * HOUR_S))
    [history] = histories(shared_store, short, [], FROM_S + 4 * HOUR_S, TO_S).values()
    assert history.start_s == FROM_S + 2 * HOUR_S


def test_variants_that_count_the_same_are_counted_once(
    shared_store: Store, ledger: list[LedgerRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[object] = []
    real = ObjectiveReader.classes

    def classes(self: ObjectiveReader, *parameters: object) -> object:
        queries.append(parameters)
        return real(self, *parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(ObjectiveReader, "classes", classes)
    slower = replace(UP, windows=(BurnWindow("page", HOUR_S, 300, 0.5),))
    quick = replace(UP, windows=(BurnWindow("page", HOUR_S, 300, 0.002),))
    draft, other = preview(shared_store, {"draft": quick, "slower": slower}, [], FROM_S, TO_S)
    assert len(queries) == 1
    assert draft.events == other.events
    assert len(draft.pages) > len(other.pages) == 0
    assert draft.recorded_from_s == min(row.entry_start_ns for row in ledger) // NS  # and not the hour that it lies in


def test_thirty_days_take_one_query(store: Store) -> None:
    store.writer.insert_requests(rows(random.Random(5), 500, (TO_S - 29 * DAY_S) * NS, TO_S * NS), 1)
    [found] = preview(store, {"draft": UP}, [], TO_S - 30 * DAY_S, TO_S)
    [one] = found.replays.values()
    assert one.history.steps > 28 * 1440
