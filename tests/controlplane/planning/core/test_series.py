"""From counted steps to demand: gaps, what was refused, and tokens of requests without a count."""

import numpy as np

from controlplane.planning.core.series import demand_of, measured
from controlplane.slo.core.gaps import Gap
from controlplane.telemetry.core.demand_rows import COUNTS, DemandRows

FROM_S, STEP_S = 1_795_392_000, 300


def rows(at: dict[int, dict[str, float]]) -> DemandRows:
    counts = {name: np.array([step.get(name, 0.0) for step in at.values()]) for name in COUNTS}
    return DemandRows("chat", "premium", "eu", np.array([FROM_S + STEP_S * step for step in at], np.int64), counts)


def per_step(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[float | None]:
    return [None if np.isnan(value) else round(float(value) * STEP_S, 6) for value in values]


def test_steps_without_requests_are_none_where_measured_and_gaps_where_not() -> None:
    known = np.array([1, 1, 1, 0, 1.0])
    demand = demand_of(rows({1: {"requests": 30}, 4: {"requests": 60}}), FROM_S, STEP_S, known)
    assert per_step(demand.requests.values) == [None, 30, 0, None, 60], (
        "before its first request it may not have existed"
    )
    assert per_step(demand.shed.values) == [None, 0, 0, None, 0]


def test_what_came_in_a_known_part_of_a_step_came_in_all_of_it() -> None:
    demand = demand_of(rows({0: {"requests": 6}, 1: {"requests": 5}}), FROM_S, STEP_S, np.array([0.6, 1.0]))
    assert per_step(demand.requests.values) == [10, 5]


def test_requests_that_are_lost_while_others_arrive_are_no_lower_demand() -> None:
    chat, other = ("chat", "premium"), ("other", "premium")
    gaps = [
        Gap(FROM_S, FROM_S + 300, "-", {chat: 20}, ended={chat: 80, other: 5}),
        Gap(FROM_S + 300, FROM_S + 900, "-", {chat: 30}, ended={chat: 40}),
        Gap(FROM_S + 1_050, FROM_S + 1_110, "-"),
        Gap(FROM_S + 1_300, FROM_S + 9_000, "-", lasts=True),
    ]
    part = measured(gaps, {"model": "chat", "tier": "premium"}, FROM_S, STEP_S, 5)
    assert part.tolist() == [0.75, 0, 0, 0.8, 0]
    assert measured(gaps[:1], {"model": "other", "tier": "premium"}, FROM_S, STEP_S, 1).tolist() == [1]
    demand = demand_of(rows({0: {"requests": 60}, 1: {"requests": 5}}), FROM_S, STEP_S, part)
    assert per_step(demand.requests.values) == [80, None, None, 0, None]


def test_requests_in_a_step_that_was_not_measured_do_not_count() -> None:
    demand = demand_of(rows({0: {"requests": 5}, 1: {"requests": 7}}), FROM_S, STEP_S, np.array([1.0, 0.0]))
    assert per_step(demand.requests.values) == [5, None]


def test_demand_is_what_clients_wanted_refused_requests_and_their_tokens_included() -> None:
    known = {"requests": 10, "shed": 4, "input_tokens": 600, "input_known": 6, "output_tokens": 120, "output_known": 6}
    all_shed = {"requests": 3, "shed": 3}
    demand = demand_of(rows({0: known, 1: all_shed}), FROM_S, STEP_S, np.ones(2))
    assert per_step(demand.requests.values) == [10, 3]
    assert per_step(demand.shed.values) == [4, 3]
    assert per_step(demand.input_tokens.values) == [1000, 300]
    assert per_step(demand.output_tokens.values) == [200, 60]


def test_without_any_request_all_is_none() -> None:
    demand = demand_of(rows({}), FROM_S, STEP_S, np.array([1.0, 0.0]))
    assert per_step(demand.requests.values) == [0, None]
