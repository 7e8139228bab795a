"""From measured windows to what a replica carries, and from measured starts to a cold start."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.capacity.replica_capacity import ASSUMED_COLD_START_S, LoadWindows, cold_start, measured_capacity
from tests.support.soak import sized

WINDOW_S = 300


def windows(loads: list[tuple[float, float]], replicas: int = 2, **changes: float) -> LoadWindows:
    """Windows of (requests/s per replica, share of good requests); each request has 500 tokens in and 200 out, and works 4 s."""
    requests = np.array([round(load * replicas * WINDOW_S) for load, _ in loads], dtype=np.int64)
    good = np.array([round(count * share) for count, (_, share) in zip(requests, loads, strict=True)], dtype=np.int64)
    return LoadWindows(
        window_s=WINDOW_S,
        day=np.full(len(loads), changes.get("day", 0), dtype=np.int64),
        requests=requests,
        replicas=np.full(len(loads), replicas, dtype=np.int64),
        judged=requests,
        good=good,
        input_tokens=requests * 500.0,
        output_tokens=requests * 200.0,
        busy_s=requests * 4.0,
        prefill_s=requests * changes.get("prefill_s", 0.5),
        decode_s=requests * changes.get("decode_s", 3.5),
    )


def test_the_capacity_is_the_highest_load_that_kept_the_objective() -> None:
    measured = measured_capacity(windows([(1.0, 1.0)] * 5 + [(2.0, 0.97)] * 5 + [(3.0, 0.6)] * 5), 0.95, slots=16)
    assert measured.capacity is not None
    assert measured.capacity.requests_per_s == pytest.approx(2.0)
    assert measured.capacity.batching_factor == pytest.approx(8.0)
    assert measured.capacity.measured_replicas == 2
    assert measured.capacity.slots == 16
    assert not measured.capacity.lower_bound
    assert "Above it 60.0% of the requests were good" in measured.reason


def test_the_mix_and_the_prompts_share_are_of_that_load() -> None:
    found_at = measured_capacity(windows([(2.0, 1.0)] * 5), 0.95).capacity
    assert found_at is not None and found_at.mix is not None
    assert (found_at.mix.input_tokens, found_at.mix.output_tokens) == (500, 200)
    assert found_at.input_share == pytest.approx(0.5 / (0.5 + 3.5 / 8))
    unknown = measured_capacity(windows([(2.0, 1.0)] * 5, prefill_s=0), 0.95).capacity
    assert unknown is not None and unknown.input_share is None


def test_a_load_that_was_never_too_much_is_a_lower_bound() -> None:
    measured = measured_capacity(windows([(1.0, 1.0)] * 5), 0.95)
    assert measured.capacity is not None and measured.capacity.lower_bound
    assert measured.reason.startswith("At least 1 requests/s a replica")


def test_neither_a_lucky_busy_window_counts_nor_a_bad_quiet_one() -> None:
    for loads, capacity in (
        ([(1.0, 1.0)] * 20 + [(3.0, 0.5)] * 20 + [(4.0, 1.0)] * 3, 1.0),
        ([(0.1, 0.2)] * 3 + [(2.0, 1.0)] * 30 + [(4.0, 0.3)] * 10, 2.0),
    ):
        measured = measured_capacity(windows(loads), 0.95)
        assert measured.capacity is not None
        assert measured.capacity.requests_per_s == pytest.approx(capacity)


@pytest.mark.parametrize(
    ("loads", "target", "reason"),
    [
        ([], 0.95, "No request of this pool reached a replica"),
        ([(0.0, 1.0)] * 5, 0.95, "No request of this pool reached a replica"),
        ([(1.0, 1.0)] * 2, 0.95, "Too little was measured"),
        ([(1.0, 1.0)] * 5, 0.9999, "Too little was measured"),
        (
            [(1.0, 0.5)] * 5,
            0.95,
            "The objective was not kept at any load: of 3000 requests at the lowest, 50.0% were good",
        ),
    ],
)
def test_without_a_capacity_there_is_a_reason(loads: list[tuple[float, float]], target: float, reason: str) -> None:
    measured = measured_capacity(windows(loads), target)
    assert measured.capacity is None
    assert reason in measured.reason


@settings(max_examples=sized(30, soak=300), deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1)), max_size=40), st.floats(0.5, 0.999))
def test_any_windows_have_a_capacity_that_was_seen_or_a_reason(loads: list[tuple[float, float]], target: float) -> None:
    measured = measured_capacity(windows(loads), target)
    assert measured.reason.endswith(".")
    if measured.capacity is not None:
        seen = [load for load, _ in loads]
        assert min(seen) * 0.9 <= measured.capacity.requests_per_s <= max(seen) * 1.1
        for field in fields(measured.capacity):
            value = getattr(measured.capacity, field.name)
            assert not isinstance(value, float) or math.isfinite(value)


def test_an_incident_at_the_peak_of_one_day_is_no_limit() -> None:
    def week(bad_days: int) -> LoadWindows:
        peak = [windows([(1.0, 1.0)] * 4 + [(2.0, 0.5 if day < bad_days else 1.0)] * 4, day=day) for day in range(7)]
        return LoadWindows(
            WINDOW_S, *(np.concatenate([getattr(each, part.name) for each in peak]) for part in fields(LoadWindows)[1:])
        )

    one, most = measured_capacity(week(1), 0.95).capacity, measured_capacity(week(5), 0.95).capacity
    assert one is not None and (one.requests_per_s, one.lower_bound) == (pytest.approx(2.0), True)
    assert most is not None and (most.requests_per_s, most.lost_on) == (pytest.approx(1.0), (0, 1, 2, 3, 4))


def test_a_cold_start_is_p90_of_what_was_measured() -> None:
    start = cold_start([float(second) for second in range(1, 11)], 300)
    assert (start.p90_s, start.source, start.starts) == (10.0, "ledger", 10)


def test_too_few_starts_leave_what_was_entered() -> None:
    start = cold_start([10.0, math.nan, 12.0], 300)
    assert (start.p90_s, start.source, start.starts) == (300.0, "entered", 2)
    assert start.reason == "300 s was entered. 2 starts were measured, and 5 are needed."
    assert cold_start([10.0, 12.0], 0.0).p90_s == 0.0
    assumed = cold_start([10.0, 12.0], None)
    assert (assumed.p90_s, assumed.source) == (ASSUMED_COLD_START_S, "assumed")
    assert assumed.reason == "300 s is assumed: none was entered. 2 starts were measured, and 5 are needed."
