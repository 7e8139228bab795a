"""The store's counts for all objectives at once equal judging each row by itself."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from controlplane.slo.core.count_plan import GRID_S, CountPlan, Split, definition
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Indicator, Latency
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from inference.contract.stages import STAGES
from tests.support.slo.judging import is_good
from tests.support.slo.ledger_rows import MODELS, REGIONS, TIERS, rows
from tests.support.soak import sized

NS = 10**9
HOUR = 500_000  # hours since the epoch
FROM_S, TO_S = HOUR * 3600, (HOUR + 1) * 3600

Events = dict[tuple[str, Split, int], tuple[int, int]]
"""Bad and total by slug, split and step; steps without events left out."""


def counted(store: Store, plan: CountPlan) -> Events:
    classes = store.objectives.classes(Window(FROM_S * NS, TO_S * NS), plan.cuts, plan.dimensions, GRID_S)
    counting = plan.counting(classes, FROM_S, TO_S)
    return {
        (task.objective.slug, split, FROM_S // GRID_S + step): (int(block[0, step]), int(block[1, step]))
        for task in plan.tasks
        for split, block in counting.requests(task).items()
        for step in block[1].nonzero()[0].tolist()
    }


def judged(ledger: list[LedgerRow], objectives: list[Objective]) -> Events:
    bad, total = Counter[tuple[str, Split, int]](), Counter[tuple[str, Split, int]]()
    for one in objectives:
        for row in ledger:
            if any(getattr(row, name) != value for name, value in one.scope.items()):
                continue
            good = is_good(one.indicator, row)
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
                Availability(count_client_errors=True),
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
        names = source.sample(sorted(choices), source.randrange(sized(2, soak=20)))
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


@pytest.mark.parametrize("seed", range(sized(2, soak=20)))
def test_the_store_counts_what_judging_row_by_row_gives(store: Store, seed: int) -> None:
    source = random.Random(seed)
    ledger = [
        replace(row, http_status=source.choice((None, 400, 401, 404, 408, 413, 422, 429, 499, 500, 503)))
        for row in rows(source, 1_500, FROM_S * NS, TO_S * NS)
    ]
    objectives = random_objectives(source, ledger, 80)
    store.writer.insert_requests(ledger, 1)

    assert counted(store, CountPlan(objectives)) == judged(ledger, objectives)


def test_the_definition_changes_only_with_what_is_counted() -> None:
    one = Objective("up", "", Availability(), 0.99)
    assert definition(one) == definition(replace(one, target=0.9, owner="serving", revision=7))
    assert definition(one) != definition(replace(one, scope={"tier": "premium"}))
    assert definition(one) != definition(replace(one, method=Timeslices()))
