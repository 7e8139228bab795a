"""The store's counts for all objectives at once equal judging each row by itself."""

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.slo.core.count_plan import GRID_S, CountPlan, Split, definition
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Indicator, Latency
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.keys import key_of
from inference.contract.stages import STAGES
from tests.support.slo.ledger_rows import MODELS, REGIONS, TIERS, rows

NS = 10**9
HOUR = 500_000  # hours since the epoch
FROM_S, TO_S = HOUR * 3600, (HOUR + 1) * 3600

Events = dict[tuple[str, Split, int], tuple[int, int]]
"""Bad and total by slug, split and step; steps without events left out."""


def counted(store: Store, plan: CountPlan) -> Events:
    classes = store.objectives.classes(Window(FROM_S * NS, TO_S * NS), plan.cuts, plan.dimensions, GRID_S)
    return {
        (task.objective.slug, split, FROM_S // GRID_S + step): (int(block[0, step]), int(block[1, step]))
        for task, blocks in plan.count(classes, FROM_S, TO_S)
        for split, block in blocks.items()
        for step in block[1].nonzero()[0].tolist()
    }


def judged(ledger: list[LedgerRow], objectives: list[Objective]) -> Events:
    bad, total = Counter[tuple[str, Split, int]](), Counter[tuple[str, Split, int]]()
    for one in objectives:
        for row in ledger:
            if any(getattr(row, name) != value for name, value in one.scope.items()):
                continue
            good = one.indicator.good(row)
            if good is None:
                continue
            key = (one.slug, tuple(getattr(row, name) for name in one.split_by), row.entry_start_ns // (GRID_S * NS))
            total[key] += 1
            bad[key] += not good
    return {key: (bad[key], total[key]) for key in total}


def random_objectives(source: random.Random, ledger: list[LedgerRow], count: int) -> list[Objective]:
    """Thresholds on values that occur, just beside them, and anywhere."""
    found = []
    for number in range(count):
        row = source.choice(ledger)
        near_ms = source.choice((row.e2e_ns, row.ttft_ns or 1, row.decode_ns // 10, row.stages["queue"])) / 1e6
        measure = source.choice((*MEASURES, *STAGES))
        threshold_ms = max(near_ms + source.choice((0, 1e-6, -1e-6, 0.1)), 1e-7)
        indicator: Indicator = source.choice(
            (
                Availability(),
                Cost(source.choice((0.1 / 7 * 1000, source.random(), 1e-9))),
                Latency(measure, threshold_ms, source.choice(("gateway", "vllm-arrival"))),
                Latency(measure, threshold_ms),
            )
        )
        choices = {
            "model": source.choice((*MODELS, "absent")),
            "tier": source.choice(TIERS),
            "region": source.choice(REGIONS),
        }
        names = source.sample(sorted(choices), source.randrange(4))
        split = source.random() < 0.3 and len(names) < 3
        found.append(
            Objective(
                f"objective-{number}",
                "",
                indicator,
                0.99,
                scope={name: choices[name] for name in names},
                split_by=tuple(name for name in choices if name not in names)[:1] if split else (),
            )
        )
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_store_counts_what_judging_row_by_row_gives(store: Store, seed: int) -> None:
    source = random.Random(seed)
    ledger = rows(source, 1_500, FROM_S * NS, TO_S * NS)
    objectives = random_objectives(source, ledger, 80)
    store.writer.insert_requests(ledger, 1)

    assert counted(store, CountPlan(objectives)) == judged(ledger, objectives)


def test_amended_and_withdrawn_rows_count_as_they_are_now(store: Store) -> None:
    source = random.Random(5)
    ledger = rows(source, 200, FROM_S * NS, TO_S * NS)
    store.writer.insert_requests(ledger, 1)
    amended = [replace(row, status="error", error_type="") for row in ledger[:50]]
    store.writer.insert_requests(amended, 2)
    store.writer.withdraw_requests([key_of(row) for row in ledger[50:100]], version=9)
    objectives = [Objective("up", "", Availability(), 0.99)]

    assert counted(store, CountPlan(objectives)) == judged([*amended, *ledger[100:]], objectives)


def test_planned_maintenance_counts_for_nothing_where_it_is_planned(store: Store) -> None:
    source = random.Random(6)
    ledger = rows(source, 500, FROM_S * NS, TO_S * NS)
    store.writer.insert_requests(ledger, 1)
    objectives = [Objective(slug, "", Availability(), 0.99) for slug in ("a", "b")]
    start = datetime.fromtimestamp(FROM_S + 600, UTC).replace(tzinfo=None)
    model = MaintenanceWindow("driver", start, "UTC", 600, scope={"model": "chat-large"})
    only_b = MaintenanceWindow("move", start.replace(minute=40), "UTC", 300, objectives=frozenset({"b"}))

    def counts(row: LedgerRow, slug: str) -> bool:
        minute = (row.entry_start_ns // NS - FROM_S) // 60
        return not (row.model == "chat-large" and 10 <= minute < 20) and not (slug == "b" and 40 <= minute < 45)

    found = counted(store, CountPlan(objectives, [model, only_b]))
    expected: Events = {}
    for one in objectives:
        expected |= judged([row for row in ledger if counts(row, one.slug)], [one])
    assert found == expected


def test_a_slice_is_bad_when_too_few_of_its_requests_were_good(store: Store) -> None:
    source = random.Random(7)
    ledger = rows(source, 400, FROM_S * NS, TO_S * NS)
    store.writer.insert_requests(ledger, 1)
    one = Objective("up", "", Availability(), 0.99, method=Timeslices(300, 0.6))

    by_slice: dict[int, list[bool]] = {}
    for row in ledger:
        good = one.indicator.good(row)
        if good is not None:
            by_slice.setdefault(row.entry_start_ns // (300 * NS), []).append(good)
    expected = {
        ("up", (), number * 30): (int(sum(events) < 0.6 * len(events)), 1) for number, events in by_slice.items()
    }
    assert counted(store, CountPlan([one])) == expected


def test_the_definition_changes_only_with_what_is_counted() -> None:
    one = Objective("up", "", Availability(), 0.99)
    assert definition(one) == definition(replace(one, target=0.9, owner="serving", revision=7))
    assert definition(one) != definition(replace(one, scope={"tier": "premium"}))
    assert definition(one) != definition(replace(one, method=Timeslices()))
