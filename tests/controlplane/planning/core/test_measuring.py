"""Which objective says what a pool's replicas carry."""

import numpy as np
import pytest

from controlplane.planning.core.measuring import NO_OBJECTIVE, judges, measured_by_objective, strictest, windows_of
from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import Availability, Latency
from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.replica_load import PoolLoad


def load(requests: list[int], good_share: float, judged: bool = True) -> PoolLoad:
    counts = np.array(requests, dtype=np.int64)
    return PoolLoad(
        pool="eu",
        start_ns=np.arange(len(requests), dtype=np.int64),
        requests=counts,
        replicas=np.ones(len(requests), dtype=np.int64),
        judged=counts * judged,
        good=(counts * judged * good_share).astype(np.int64),
        input_tokens=counts * 100,
        output_tokens=counts * 10,
        model_ns=counts * 2_000_000_000,
        prefill_ns=counts * 500_000_000,
        decode_ns=counts * 1_500_000_000,
    )


def test_latency_objectives_that_load_can_break_judge_with_the_target_of_their_method() -> None:
    objectives = [
        Objective("first", "First", Latency("ttft", 300), 0.95, {"tier": "premium"}),
        Objective("whole", "Whole", Latency("e2e", 5_000), 0.9, method=Timeslices(60, 0.8)),
        Objective("answered", "Answered", Availability(), 0.999),
        Objective("near", "Near", Latency("network", 5), 0.9),
    ]
    first, whole = judges(objectives)
    assert (first.slug, first.cut, first.scope, first.target) == (
        "first",
        Cut("ttft", (300,), "gateway"),
        {"tier": "premium"},
        0.95,
    )
    assert (whole.slug, whole.cut, whole.target) == ("whole", Cut("e2e", (5_000,)), 0.8)


def test_windows_of_several_days_are_joined() -> None:
    windows = windows_of([load([300, 600], 1.0), load([900], 1.0)], 300)
    assert windows.requests.tolist() == [300, 600, 900]
    assert windows.busy_s.tolist() == [600.0, 1200.0, 1800.0]
    assert windows.prefill_s.tolist() == [150.0, 300.0, 450.0]


def test_the_strictest_objective_decides() -> None:
    light, heavy = [load([600] * 5, 1.0)], [load([1500] * 5, 1.0)]
    windows = {"loose": windows_of(light + heavy, 300), "strict": windows_of([*light, load([1500] * 5, 0.5)], 300)}
    slug, measured = strictest(measured_by_objective(windows, {"loose": 0.9, "strict": 0.9}, 8, {}), [], 7)
    assert slug == "strict"
    assert measured.capacity is not None
    assert measured.capacity.requests_per_s == pytest.approx(2.0)
    assert measured.capacity.slots == 8


def test_an_objective_that_was_never_kept_is_the_strictest() -> None:
    windows = {"kept": windows_of([load([600] * 5, 1.0)], 300), "never": windows_of([load([600] * 5, 0.1)], 300)}
    slug, measured = strictest(measured_by_objective(windows, {"kept": 0.9, "never": 0.9}, None, {}), [], 7)
    assert (slug, measured.capacity) == ("never", None)
    assert "was not kept at any load" in measured.reason


def test_without_an_objective_that_judges_the_pool_the_reason_says_so() -> None:
    unjudged = {"other": windows_of([load([600] * 5, 1.0, judged=False)], 300)}
    for windows in ({}, unjudged):
        slug, measured = strictest(measured_by_objective(windows, {"other": 0.9}, None, {}), [], 7)
        assert (slug, measured.capacity, measured.reason) == ("", None, NO_OBJECTIVE)
