"""Both sides of a difference, by every value of every dimension, counted as Python counts them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from controlplane.telemetry.core.query_types import HEATMAP_EDGES_NS, Filters, Region, Window
from controlplane.telemetry.explain.difference import Side
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read import sample
from controlplane.telemetry.store.read.explain import DIMENSIONS
from controlplane.telemetry.store.read.sample import STRETCHES
from controlplane.telemetry.store.tiers import SAMPLED
from controlplane.telemetry.store.write.keys import key_of
from inference.contract.stages import STAGES
from tests.support.telemetry.samples import HOUR, NOON_NS, S, answered, random_rows, row

ROWS = random_rows(600, seed=11)
HALF = Window(NOON_NS, NOON_NS + 1800 * S)


def side(rows: list[LedgerRow]) -> Side:
    times = {stage: sum(row.stages[stage] for row in rows) for stage in STAGES}
    return Side(len(rows), times | {"unattributed": sum(row.unattributed_ns for row in rows)})


@pytest.fixture(scope="module")
def stored(shared_store: Store) -> None:
    shared_store.writer.insert_requests(ROWS, version=1)


@pytest.mark.parametrize(
    ("region", "inside"),
    [
        (Region(200_000_000), lambda row: row.e2e_ns >= 200_000_000),
        (Region(100_000_000, 150_000_000), lambda row: 100_000_000 <= row.e2e_ns < 150_000_000),
        (Region(window=HALF), lambda row: row.entry_start_ns < HALF.to_ns),
        (Region(150_000_000, window=HALF), lambda row: row.e2e_ns >= 150_000_000 and row.entry_start_ns < HALF.to_ns),
        (Region(10**12), lambda row: False),
    ],
)
@pytest.mark.usefixtures("stored")
def test_both_sides_count_exactly(shared_store: Store, region: Region, inside: Callable[[LedgerRow], bool]) -> None:
    total, dimensions = shared_store.explain.splits(HOUR, {}, region)
    own = answered(ROWS)
    chosen, rest = [row for row in own if inside(row)], [row for row in own if not inside(row)]
    assert (total.chosen.requests, total.rest) == (len(chosen), side(rest))
    assert set(dimensions) == set(DIMENSIONS)
    for dimension, values in dimensions.items():
        name = "cache_outcome" if dimension == "cache" else dimension
        assert set(values) == {getattr(row, name) for row in answered(ROWS)}
        for value, split in values.items():
            own = [row for row in chosen if getattr(row, name) == value]
            assert split.chosen.requests == len(own)
            assert split.chosen.e2e_ns == sum(row.e2e_ns for row in own)
            assert split.rest == side([row for row in rest if getattr(row, name) == value])
            assert set(split.exemplars) <= {row.trace_id for row in own}
            assert len(split.exemplars) == min(3, len(own))


def test_what_makes_requests_slow_is_found(store: Store) -> None:
    slow = [row(number, replica="10.0.0.9:8001", stages={"queue": 80_000_000}) for number in range(1, 21)]
    usual = [row(number, replica=f"10.0.0.{number % 5}:8001") for number in range(21, 421)]
    store.writer.insert_requests(slow + usual, version=1)
    explained = store.explain.findings(HOUR)
    assert (explained.chosen, explained.rest) == (20, 400)
    assert (explained.findings[0].dimension, explained.findings[0].value) == ("replica", "10.0.0.9:8001")
    assert explained.stages[0].stage == "queue"


def test_a_sample_has_all_requests_of_its_traces_as_they_are_last_known(store: Store) -> None:
    store.writer.insert_requests(ROWS, version=1)
    amended = [replace(row, model="amended") for row in ROWS[:200]]
    store.writer.insert_requests(amended, version=2)
    store.writer.withdraw_requests([key_of(row) for row in ROWS[500:]], version=2)
    traces = {trace for (trace,) in store.rows("SELECT DISTINCT lower(hex(trace_id)) FROM request_samples")}
    assert len(ROWS) / SAMPLED / 2 < len(traces) < len(ROWS) / SAMPLED * 2
    read = [row for row in answered(amended + ROWS[200:500]) if row.trace_id in traces]
    total, dimensions = store.explain.splits(HOUR, {}, Region(100_000_000), level=SAMPLED)
    assert total.chosen == side([row for row in read if row.e2e_ns >= 100_000_000])
    assert total.rest == side([row for row in read if row.e2e_ns < 100_000_000])
    for model, split in dimensions["model"].items():
        assert split.chosen.requests + split.rest.requests == sum(row.model == model for row in read)


def test_a_sparser_sample_is_of_parts_of_the_whole_time(store: Store) -> None:
    second = (
        row(number, entry_start_ns=HOUR.from_ns + number * S // 20, replica=str(number // 1500))
        for number in range(72_000)
    )
    store.writer.insert_requests(list(second), version=1)
    assert 72_000 % STRETCHES == 0
    total, dimensions = store.explain.splits(HOUR, {}, Region(), ["replica"], level=SAMPLED**2)
    assert set(dimensions["replica"]) == {str(number) for number in range(STRETCHES)}
    assert total.chosen.requests == pytest.approx(72_000 / SAMPLED**2, rel=0.2)


def test_as_many_requests_are_read_as_can_be(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.writer.insert_requests(ROWS, version=1)
    [(sampled,)] = store.rows("SELECT count() FROM request_samples")
    of_all = sampled * SAMPLED
    for most, level in (
        (of_all, 1),
        (of_all - 1, SAMPLED),
        (sampled, SAMPLED),
        (sampled - 1, 2 * SAMPLED),
        (sampled // 2 - 1, 4 * SAMPLED),
    ):
        monkeypatch.setattr(sample, "MAX_READ", most)
        assert store.explain.one_in(HOUR) == level
    assert store.explain.one_in(HOUR, {"model": ("unheard-of",)}) == 1
    for lacking in ({"attribute": ("user.id=1",)}, {"not": ("model=unheard-of", "user.id=1")}):
        assert store.explain.one_in(HOUR, cast(Filters, lacking)) == 1
    for dimension in DIMENSIONS:
        assert store.explain.one_in(HOUR, {"not": (f"{dimension}=unheard-of",), "tokens": (">=0",)}) > 1


def test_an_empty_window_explains_nothing(store: Store) -> None:
    explained = store.explain.findings(HOUR)
    assert (explained.chosen, explained.rest, explained.findings) == (0, 0, [])
    assert store.explain.heatmap(HOUR, {}, 60) == []


def test_the_heatmap_counts_every_request_in_its_cell(store: Store) -> None:
    edges = [
        row(900 + at, stages={"queue": 0, "model": edge})
        for at, edge in enumerate((0, 99_999, 100_000, 10**15, *HEATMAP_EDGES_NS[5:9]))
    ]
    rows = ROWS + edges
    store.writer.insert_requests(rows, version=1)
    cells = store.explain.heatmap(HOUR, None, 300)
    expected: Counter[tuple[int, int]] = Counter()
    for each in answered(rows):
        low = max(edge for edge in HEATMAP_EDGES_NS if edge <= each.e2e_ns)
        expected[each.entry_start_ns // (300 * S) * 300 * S, low] += 1
    assert {(cell.start_ns, cell.low_ns): cell.requests for cell in cells} == expected
    assert {cell.high_ns for cell in cells if cell.low_ns == HEATMAP_EDGES_NS[-1]} == {None}
    for cell in cells:
        if cell.high_ns is not None:
            region = Region(cell.low_ns, cell.high_ns, Window(cell.start_ns, cell.start_ns + 300 * S))
            assert store.explain.splits(HOUR, {}, region, ["status"])[0].chosen.requests == cell.requests
            break
