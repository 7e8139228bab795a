"""Slices as events: long slices page too, because the minimum counts requests."""

import random
from dataclasses import replace

import pytest

from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.evaluation import Evaluation
from controlplane.slo.core.objective import Timeslices
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.telemetry.store import Store
from tests.support.slo.evaluations import NOW_S, NS, UP, evaluated
from tests.support.slo.ledger_rows import rows


def judged(store: Store, slice_s: int, bad: int, good: int, minimum_total: int = 10) -> Evaluation:
    """After half an hour of good requests, and then ten minutes of others: `NOW_S` is 20 minutes into an hour."""
    before = rows(random.Random(1), 200, (NOW_S - 2_400) * NS, (NOW_S - 600) * NS)
    since = rows(random.Random(2), bad + good, (NOW_S - 600) * NS, NOW_S * NS)
    ledger = [replace(row, status="ok", error_type="") for row in [*before, *since[bad:]]]
    store.writer.insert_requests([*ledger, *(replace(row, status="error", error_type="") for row in since[:bad])], 1)
    sliced = replace(UP, target=0.99, method=Timeslices(slice_s, 0.95), minimum=MinimumEvents(minimum_total, 3))
    evaluator = Evaluator(store)
    [found] = evaluated(evaluator, [sliced])
    return found


@pytest.mark.parametrize("slice_s", [60, 1_200, 1_800, 3_600])
def test_slices_of_any_length_page_in_an_outage(store: Store, slice_s: int) -> None:
    found = judged(store, slice_s, bad=60, good=0)
    assert (found.alert.state, found.alert.severity) == ("firing", "page")
    assert found.counts.bad >= 1


def test_two_bad_requests_are_too_few_in_slices_too(store: Store) -> None:
    found = judged(store, 60, bad=2, good=0)
    assert found.counts.bad == 2
    assert (found.alert.state, [one.enough_events for one in found.alert.verdicts]) == ("quiet", [False] * 4)


def test_the_minimum_counts_requests_where_slices_are_few(store: Store) -> None:
    assert judged(store, 3_600, bad=60, good=0, minimum_total=261).alert.state == "quiet"
