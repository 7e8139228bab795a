"""The load as ticks see it: steady against chance, quick against change."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.policy.core import arrival_rate
from controlplane.policy.core.arrival_rate import AT_A_TIME, FIRST_LOOK_S, STEADY_S, lasting_rps, seen, shown_share
from controlplane.policy.core.memory import LoadMemory


def after(rates: "np.typing.ArrayLike", tick_ms: int = 1_000) -> list[LoadMemory]:
    memory, states = None, []
    for tick, rate in enumerate(np.asarray(rates, dtype=float).tolist()):
        memory = seen(memory, rate, tick * tick_ms)
        assert memory is not None
        states.append(memory)
    return states


@pytest.mark.parametrize("seed", range(3))
def test_chance_is_averaged_over_minutes(seed: int) -> None:
    counts = np.random.default_rng(seed).poisson(10, 3_600)
    rates = [state.steady_rps for state in after(counts)[600:]]
    assert np.std(rates) < 0.5, "of a second's counts it is 3.2"
    assert np.mean(rates) == pytest.approx(10, abs=0.3)


def rises(states: list[LoadMemory]) -> int:
    """How often the last ticks were taken for a rise: the steady mean began anew with that tick."""
    return sum(state.over_s == 1.0 for state in states[60:])


@pytest.mark.parametrize(
    ("before", "later", "within_s"),
    [(10, 60, 1), (5, 25, 2), (200, 300, 2), (10, 20, 10), (100, 110, 60), (20, 10, 60)],
)
def test_a_change_is_noticed_the_sooner_the_larger_it_is(before: int, later: int, within_s: int) -> None:
    chance = np.random.default_rng(before)
    states = after([*chance.poisson(before, 400), *chance.poisson(later, 400)])
    middle = (before + later) / 2
    passed = [(state.steady_rps - middle) * (later - before) > 0 for state in states[400:]]
    assert passed.index(True) < within_s
    assert states[-1].steady_rps == pytest.approx(later, rel=0.15)


TICKS = 8_000


def poisson(chance: np.random.Generator, rps: float) -> "np.typing.NDArray[np.float64]":
    return chance.poisson(rps, TICKS).astype(float)


def uneven(chance: np.random.Generator, rps: float) -> "np.typing.NDArray[np.float64]":
    """Independent intervals with a coefficient of variation of 1.5 (ServeGen, arXiv 2505.09999)."""
    arrivals = chance.gamma(1 / 2.25, 2.25 / rps, int(rps * TICKS * 1.2) + 1_000).cumsum()
    return np.histogram(arrivals, np.arange(TICKS + 1))[0].astype(float)


def fives(chance: np.random.Generator, rps: float) -> "np.typing.NDArray[np.float64]":
    """Requests that come five at a time."""
    return 5.0 * chance.poisson(rps / 5, TICKS)


@pytest.mark.parametrize("arrivals", [poisson, uneven, fives])
def test_chance_looks_like_a_rise_no_more_often_than_is_said(
    arrivals: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once an hour, which can be counted, in place of once a week. Three standard errors above it are allowed."""
    monkeypatch.setattr(arrival_rate, "BY_CHANCE_S", 3_600.0)
    by_rate = [rises(after(arrivals(np.random.default_rng(7), rps))) for rps in (0.2, 1.0, 5.0, 20.0, 200.0)]
    said = len(by_rate) * TICKS / 3_600
    assert sum(by_rate) <= said + 3 * said**0.5, by_rate


def test_one_clump_of_requests_is_no_rise_where_clumps_are_usual() -> None:
    clumps = np.where(np.arange(600) % 20 == 0, 25.0, 4.0)
    assert rises(after([*clumps, 25.0])) == 0
    calm = after([*np.random.default_rng(3).poisson(5, 600), 25.0])
    assert calm[-1].over_s == 1.0
    assert 15 < calm[-1].steady_rps < 25, "what is surely there, not all that a tick had by chance"


def test_a_load_that_is_new_is_averaged_at_first() -> None:
    assert after([5, 9, 14, 8, 12])[-1].steady_rps == pytest.approx(10.75), "without the first, which covers no time"


def test_what_a_first_look_shows_may_be_chance_and_what_it_shows_for_longer_is_not() -> None:
    """Two requests in the first second were 2 requests/s, and started a replica that was removed again."""
    few, many = (seen(None, rps, 0, heard_s=0.0) for rps in (2.0, 200.0))
    assert few is not None and many is not None and [shown_share(few), shown_share(many)] == [0.0, 0.0]
    shares = []
    for second in range(1, int(FIRST_LOOK_S) + 1):
        few, many = (seen(each, each.steady_rps, 1_000 * second) for each in (few, many))  # type: ignore[union-attr]
        assert few is not None and many is not None
        shares.append((shown_share(few), shown_share(many)))
    assert shares == sorted(shares) and shares[0][0] == 0.0 and shares[0][1] > 0.6
    assert shares[-2][0] < 1.0 and shares[-1] == (1.0, 1.0)
    known = seen(None, 2.0, 0)
    assert known is not None and shown_share(known) == 1.0, "of what was measured for long"


def test_nothing_seen_changes_nothing_and_what_was_seen_long_ago_is_forgotten() -> None:
    before = after([10] * 100)[-1]
    assert seen(before, None, before.at_ms + 1_000) is before
    assert seen(None, None, 0) is None
    later = seen(before, 50.0, before.at_ms + round(STEADY_S * 1_000) + 1)
    assert later is not None
    assert later.steady_rps == 50.0


def test_a_clock_that_is_set_back_delays_what_is_seen_by_one_tick() -> None:
    memory = after([4.0] * 300)[-1]
    for second in range(20):
        memory = seen(memory, 40.0, 200_000 + second * 1_000)
        assert memory is not None
    assert memory.steady_rps == pytest.approx(40, rel=0.2)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(100, 60_000))
def test_it_lies_between_the_least_and_the_most_that_was_seen(rates: list[float], tick_ms: int) -> None:
    for state in after(rates, tick_ms):
        for value in (state.quick_rps, state.steady_rps):
            assert min(rates) - 1e-6 <= value <= max(rates) * (1 + 1e-9) + 1e-6
        assert 0 <= state.over_s <= STEADY_S


COLD_START_S = 300


def over_hours(rate_of: Callable[[int], float], ahead_s: float | None = COLD_START_S) -> LoadMemory:
    """After ticks of 15 s, each with the mean of what is due at that second."""
    memory = None
    for at_s in range(0, 12 * 3_600, 15):
        memory = seen(memory, rate_of(at_s), at_s * 1_000, ahead_s)
    assert memory is not None
    return memory


@pytest.mark.parametrize(
    ("period_s", "burst_s", "share"),
    [(1_200, 60, (-0.1, 0.15)), (1_200, 120, (-0.1, 0.15)), (7_200, 3_600, (0.6, 1.0))],
)
def test_a_rise_is_expected_to_last_as_often_as_rises_did(
    period_s: int, burst_s: int, share: tuple[float, float]
) -> None:
    """Bursts of three times the load at random times: over before a replica would be ready, or not for an hour."""
    starts = np.random.default_rng(3).uniform(0, 12 * 3_600, 12 * 3_600 // period_s)
    memory = over_hours(lambda at_s: 30.0 if ((starts <= at_s) & (at_s < starts + burst_s)).any() else 10.0)
    usual = memory.usual_rps
    assert usual is not None
    expected = (lasting_rps(memory, 40.0) - usual) / (40.0 - usual)
    assert share[0] <= expected <= share[1]


def test_without_evidence_a_rise_is_expected_to_last() -> None:
    assert lasting_rps(over_hours(lambda at_s: 10.0), 40.0) == pytest.approx(40.0)
    assert lasting_rps(over_hours(lambda at_s: 10.0 + 30 * (at_s % 600 < 60), ahead_s=None), 40.0) == pytest.approx(
        40.0
    )


def test_a_load_is_kept_a_few_times_within_a_cold_start_to_be_compared() -> None:
    kept = [at_ms for at_ms, *_ in over_hours(lambda at_s: 10.0).waited_for]
    apart_ms = 1_000 * COLD_START_S / AT_A_TIME
    assert AT_A_TIME - 1 <= len(kept) <= AT_A_TIME
    assert {later - before for before, later in pairwise(kept)} == {apart_ms}


def test_a_load_that_stays_is_the_usual_one_after_some_hours() -> None:
    memory = over_hours(lambda at_s: 10.0 if at_s < 4 * 3_600 else 25.0)
    assert lasting_rps(memory, 25.0) == pytest.approx(25.0, rel=0.02)


def test_a_fall_does_not_make_the_next_rise_pass_for_chance() -> None:
    """History 6895 of seed 7 in tests/bench/unknown: ticks of 15 s."""
    chance = np.random.default_rng(5)
    states = after([*chance.poisson(360, 20) / 15, *chance.poisson(135, 4) / 15], tick_ms=15_000)
    assert states[-1].dispersion < 3
    risen = seen(states[-1], 24.0, states[-1].at_ms + 15_000)
    assert risen is not None and risen.steady_rps > 20
