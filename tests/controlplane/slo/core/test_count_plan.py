"""Counts from the store's answer, on answers of a few rows made up by hand."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pytest

from controlplane.slo.core.count_plan import Block, CountPlan, Split, cut, late_of, parts, requests_of, sliced
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.telemetry.core.objective_counts import Classes, Cut

FROM_S, TO_S = 3_600, 3_660  # six steps

Row = tuple[int, str, int, int, bool, int]
"""Step from the start, model, cut, place, bound, requests."""


def classes(rows: Sequence[Row]) -> Classes:
    step, model, of_cut, place, bound, requests = zip(*rows, strict=True) if rows else ((),) * 6
    return Classes(
        step=np.array(step, np.int64) + FROM_S // 10,
        dimensions={"model": np.array(model, object)},
        cut=np.array(of_cut, np.int64),
        place=np.array(place, np.int64),
        bound=np.array(bound, bool),
        requests=np.array(requests, np.int64),
    )


def objective(slug: str = "up", indicator: Indicator = Availability(), **values: object) -> Objective:  # noqa: B008
    return Objective(slug, "", indicator, 0.9, **values)  # type: ignore[arg-type]


def counted(plan: CountPlan, rows: Sequence[Row]) -> list[dict[Split, list[list[int]]]]:
    """Bad and total by step and split, of each task."""
    counting = plan.counting(classes(rows), FROM_S, TO_S)
    return [{split: block.tolist() for split, block in counting.requests(task).items()} for task in plan.tasks]


SPREAD: list[Row] = [
    (5, "b", 0, 1, False, 7),
    (0, "a", 0, 0, False, 3),
    (0, "a", 0, 1, False, 2),
    (2, "b", 0, 0, False, 4),
    (5, "a", 0, 0, False, 1),
]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({}, [[2, 0, 0, 0, 0, 7], [5, 0, 4, 0, 0, 8]]),
        ({"model": "a"}, [[2, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 1]]),
        ({"model": "b"}, [[0, 0, 0, 0, 0, 7], [0, 0, 4, 0, 0, 7]]),
        ({"model": "absent"}, [[0] * 6, [0] * 6]),
    ],
)
def test_the_requests_of_a_scope_are_added_up_by_step(scope: dict[str, str], found: list[list[int]]) -> None:
    assert counted(CountPlan([objective(scope=scope)]), SPREAD) == [{(): found}]


def test_a_split_counts_each_value_by_itself() -> None:
    assert counted(CountPlan([objective(split_by=("model",))]), SPREAD) == [
        {("a",): [[2, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 1]], ("b",): [[0, 0, 0, 0, 0, 7], [0, 0, 4, 0, 0, 7]]}
    ]


def test_without_rows_there_are_no_requests_and_no_splits() -> None:
    plan = CountPlan([objective(), objective("split", split_by=("model",))])
    assert counted(plan, []) == [{(): [[0] * 6, [0] * 6]}, {}]


def test_rows_of_combinations_are_not_mixed_where_dimensions_have_several_values() -> None:
    rows = [(model, tier) for model in "abc" for tier in ("", "gold", "iron")]
    found = Classes(
        step=np.full(9, FROM_S // 10, np.int64),
        dimensions={
            "model": np.array([model for model, _ in rows], object),
            "tier": np.array([tier for _, tier in rows], object),
        },
        cut=np.zeros(9, np.int64),
        place=np.zeros(9, np.int64),
        bound=np.zeros(9, bool),
        requests=2 ** np.arange(9, dtype=np.int64),
    )
    plan = CountPlan([objective(split_by=("model", "tier"))])
    blocks = plan.counting(found, FROM_S, TO_S).requests(plan.tasks[0])
    assert {split: int(block[1, 0]) for split, block in blocks.items()} == {
        row: 2**number for number, row in enumerate(rows)
    }


def test_each_threshold_is_judged_at_its_own_place_in_its_own_cut() -> None:
    plan = CountPlan([
        objective("slow", Latency("e2e", 200)), objective("cheap", Cost(0.5)), objective("fast", Latency("e2e", 100)),
        objective("up"),
    ])  # fmt: skip
    assert plan.cuts == (Cut("availability"), Cut("cost", (0.5,)), Cut("e2e", (100, 200)))
    assert [(task.cut, task.place) for task in plan.tasks] == [(2, 1), (1, 0), (2, 0), (0, 0)]
    rows: list[Row] = [(0, "a", 2, place, False, 10**place) for place in (0, 1, 2)]
    bad, total = [[next(iter(one.values()))[which][0] for one in counted(plan, rows)] for which in (0, 1)]
    assert (bad, total) == ([100, 0, 110, 0], [111, 0, 111, 0])


def test_a_client_that_left_is_bad_for_the_thresholds_below_its_wait_and_else_not_counted() -> None:
    plan = CountPlan([objective("fast", Latency("e2e", 100)), objective("slow", Latency("e2e", 200))])
    assert [next(iter(one.values())) for one in counted(plan, [(3, "a", 0, 1, True, 5)])] == [
        [[0, 0, 0, 5, 0, 0], [0, 0, 0, 5, 0, 0]],
        [[0] * 6, [0] * 6],
    ]


def test_a_histogram_is_not_counted_by_requests() -> None:
    plan = CountPlan([objective("histogram", Histogram("vllm:ttft", 1)), objective()])
    assert [task.objective.slug for task in plan.tasks] == ["up"]
    assert cut(Histogram("vllm:ttft", 1)) is None


@pytest.mark.parametrize(
    ("indicator", "found"),
    [
        (Availability(), Cut("availability")),
        (Cost(0.25), Cut("cost", (0.25,))),
        (Latency("ttft", 300, "vllm-arrival"), Cut("ttft", (300,), "vllm-arrival")),
        (Latency("e2e", 300, "vllm-arrival"), Cut("e2e", (300,))),
    ],
)
def test_a_cut_has_the_measure_and_the_threshold(indicator: Indicator, found: Cut) -> None:
    assert cut(indicator) == found


def test_the_values_of_scopes_are_separated_and_all_values_of_a_split() -> None:
    windows = [MaintenanceWindow("x", datetime(1970, 1, 1), "UTC", 60, scope={"region": "eu"})]
    scoped = [objective("a", scope={"tier": "gold"}), objective("b", scope={"tier": "iron"})]
    assert CountPlan([*scoped, objective("c", split_by=("model",), scope={"pool": "p"})], windows).dimensions == {
        "model": None, "pool": frozenset({"p"}), "region": frozenset({"eu"}), "tier": frozenset({"gold", "iron"})
    }  # fmt: skip
    assert CountPlan([*scoped, objective("c", split_by=("tier",))]).dimensions == {"tier": None}


EVERY_STEP: list[Row] = [(step, model, 0, 1, False, 1) for step in range(6) for model in "ab"]


@pytest.mark.parametrize(
    ("start_s", "duration_s", "steps"),
    [
        (FROM_S - 60, 60, []),  # ends where the counts begin
        (FROM_S - 60, 70, [0]),
        (FROM_S - 60, 61, [0]),  # a step that it touches lies in it
        (FROM_S - 41, 60, [0, 1]),
        (FROM_S + 10, 60, [1, 2, 3, 4, 5]),
        (FROM_S + 19, 60, [1, 2, 3, 4, 5]),
        (FROM_S + 20, 60, [2, 3, 4, 5]),
        (FROM_S + 60, 60, []),
        (FROM_S - 60, 180, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_steps_that_maintenance_touches_count_for_nothing(start_s: int, duration_s: int, steps: list[int]) -> None:
    start = datetime(1970, 1, 1, start_s // 3_600, start_s // 60 % 60, start_s % 60)
    plan = CountPlan([objective()], [MaintenanceWindow("x", start, "UTC", duration_s)])
    left = [0 if step in steps else 2 for step in range(6)]
    assert counted(plan, EVERY_STEP) == [{(): [left, left]}]


@pytest.mark.parametrize(
    ("windows", "left"),
    [
        ([{"scope": {"model": "a"}}], {"up": 1, "down": 1}),
        ([{"objectives": frozenset({"down"})}], {"up": 2, "down": 0}),
        ([{"scope": {"model": "a"}}, {"scope": {"model": "b"}}], {"up": 0, "down": 0}),
        ([{"scope": {"model": "a"}, "objectives": frozenset({"up"})}, {"objectives": frozenset({"down"})}],
         {"up": 1, "down": 0}),
    ],
)  # fmt: skip
def test_maintenance_leaves_out_its_own_scope_and_objectives(
    windows: list[dict[str, object]], left: dict[str, int]
) -> None:
    start = datetime(1970, 1, 1, 1)
    planned = [MaintenanceWindow("x", start, "UTC", 60, **given) for given in windows]  # type: ignore[arg-type]
    plan = CountPlan([objective("up"), objective("down")], planned)
    found = plan.counting(classes(EVERY_STEP), FROM_S, TO_S)
    assert {task.objective.slug: found.requests(task)[()][1].tolist() for task in plan.tasks} == {
        slug: [requests] * 6 for slug, requests in left.items()
    }


REQUESTS = np.array([[1, 0, 0, 2, 0, 0], [9, 11, 0, 8, 0, 0]], np.int32)
SLICES = objective(method=Timeslices(20, 0.95))


def test_a_slice_is_an_event_in_its_first_step_and_good_on_its_target() -> None:
    """Of 20 requests 19 were good, which is 95 %; of 8, 6 were; the last slice is empty."""
    assert sliced(REQUESTS, SLICES).tolist() == [[0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0]]
    assert sliced(REQUESTS, objective()).tolist() == REQUESTS.tolist(), "where requests are the events"


def made(of: Objective, late_s: int, from_s: int = 0) -> dict[str, list[list[int]]]:
    def of_block(block: Block) -> list[list[int]]:
        return block.tolist()  # type: ignore[no-any-return]

    return {name: of_block(make(REQUESTS, from_s)) for name, make in parts(of, "d", late_s).items()}


def test_the_series_of_requests_is_one_and_slices_keep_their_requests_too() -> None:
    assert made(objective(), 0) == {"d": REQUESTS.tolist()}
    assert made(SLICES, 0) == {"d": sliced(REQUESTS, SLICES).tolist(), requests_of("d"): REQUESTS.tolist()}


@pytest.mark.parametrize(
    ("from_s", "late"),
    [
        (0, [[0, 0, 0, 2, 0, 0], [0, 0, 0, 8, 0, 0]]),
        (10, [[0, 0, 0, 2, 0, 0], [0, 11, 0, 8, 0, 0]]),  # the second step begins 20 s after the hour
        (3_590, [[1, 0, 0, 2, 0, 0], [9, 0, 0, 8, 0, 0]]),  # the first step is the last of its hour
        (7_200, [[0, 0, 0, 2, 0, 0], [0, 0, 0, 8, 0, 0]]),
    ],
)
def test_the_rest_of_each_hour_has_a_series_of_its_own(from_s: int, late: list[list[int]]) -> None:
    found = made(objective(), 20, from_s)
    assert found == {"d": REQUESTS.tolist(), late_of("d", 20): late}
