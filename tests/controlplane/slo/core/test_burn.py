import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.slo.core.burn import (
    MinimumEvents,
    Verdict,
    burn_rate,
    burn_rates,
    coarse_windows,
    error_budget,
    highest_burn_rate,
    judge,
    never_fires,
    silent_windows,
    worst,
)
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import DAY_S, HOUR_S, MINUTE_S, WORKBOOK, BurnWindow, lengths_s

PERIOD_S = 30 * DAY_S
targets = st.floats(0.5, 0.9999)
counts = st.integers(0, 10**6).flatmap(lambda total: st.integers(0, total).map(lambda bad: Counts(bad, total)))


def steady(ratio: float, per_minute: int) -> dict[int, Counts]:
    """Counts of every window when `ratio` of `per_minute` requests have been bad for ever."""
    return {
        length: Counts(round(length / MINUTE_S * per_minute * ratio), length // MINUTE_S * per_minute)
        for length in lengths_s(WORKBOOK)
    }


def outage(minutes: float, per_minute: int) -> dict[int, Counts]:
    """Counts of every window when everything has failed for `minutes`, and nothing before."""
    return {
        length: Counts(round(min(minutes, length / MINUTE_S) * per_minute), length // MINUTE_S * per_minute)
        for length in lengths_s(WORKBOOK)
    }


def fires(found: dict[int, Counts], target: float = 0.999, minimum: MinimumEvents = MinimumEvents()) -> str:  # noqa: B008
    verdict = worst(judge(found, target, PERIOD_S, minimum=minimum))
    return verdict.window.severity if verdict else ""


def test_burn_rates_by_hand() -> None:
    assert burn_rate(Counts(1, 1_000), 0.999) == pytest.approx(1)
    assert burn_rate(Counts(144, 10_000), 0.999) == pytest.approx(14.4)
    assert burn_rate(Counts(5, 100), 0.95) == pytest.approx(1)
    assert burn_rate(Counts(0, 100), 0.95) == 0
    assert burn_rate(Counts(), 0.999) is None
    assert burn_rate(Counts(7, 7), 0.9) == pytest.approx(highest_burn_rate(0.9)) == pytest.approx(10)


@pytest.mark.parametrize("target", [0.0, 1.0, 99.9, -1.0, math.nan])
def test_a_target_that_is_not_a_share_is_refused_with_an_example(target: float) -> None:
    with pytest.raises(ValueError, match=r"use 0\.999 for 99\.9 %"):
        error_budget(target)


@pytest.mark.parametrize(
    ("burn", "expected"),
    [(0.9, ""), (1.1, "ticket"), (2.9, "ticket"), (5.9, "ticket"), (6.1, "page"), (14.5, "page"), (1_000, "page")],
)
def test_a_steady_burn_alerts_as_the_workbook_says(burn: float, expected: str) -> None:
    assert fires(steady(burn * 0.001, per_minute=100_000)) == expected


def test_a_total_outage_pages_within_a_minute() -> None:
    assert fires(outage(50 / 60, per_minute=600)) == ""
    assert fires(outage(53 / 60, per_minute=600)) == "page"


def test_the_short_window_ends_the_page_after_the_burning_ended() -> None:
    found = outage(10, per_minute=600)
    assert fires(found) == "page"
    for length in (5 * MINUTE_S, 30 * MINUTE_S, 2 * HOUR_S, 6 * HOUR_S):
        found[length] = Counts(0, found[length].total)
    assert fires(found) == ""


@pytest.mark.parametrize(
    ("each", "minimum", "expected"),
    [
        (Counts(1, 10), MinimumEvents(), ""),
        (Counts(10, 10), MinimumEvents(), "page"),
        (Counts(), MinimumEvents(0, 0), ""),
    ],
)
def test_little_traffic_fires_where_enough_of_it_is_bad(each: Counts, minimum: MinimumEvents, expected: str) -> None:
    assert fires(dict.fromkeys(lengths_s(WORKBOOK), each), minimum=minimum) == expected


def test_a_page_comes_before_a_ticket_and_the_fastest_page_first() -> None:
    verdict = worst(judge(steady(0.5, 1_000), 0.999, PERIOD_S))
    assert verdict is not None
    assert verdict.window.severity == "page"
    assert verdict.threshold == pytest.approx(14.4)


@given(counts, targets)
def test_a_burn_rate_is_between_zero_and_a_total_outage(found: Counts, target: float) -> None:
    rate = burn_rate(found, target)
    assert (rate is None) == (found.total == 0)
    if rate is not None:
        assert 0 <= rate <= 1 / error_budget(target) * (1 + 1e-12)
        assert rate * error_budget(target) * found.total == pytest.approx(found.bad)


@given(st.lists(counts, min_size=7, max_size=7), targets)
def test_a_window_fires_exactly_when_sloths_expression_holds(found: list[Counts], target: float) -> None:
    """`short > rate × budget and long > rate × budget`, compared as ratios instead of burn rates."""
    by_length = dict(zip(lengths_s(WORKBOOK), found, strict=True))
    for verdict in judge(by_length, target, PERIOD_S, minimum=MinimumEvents(0, 0)):
        limit = verdict.threshold * error_budget(target)
        ratios = [by_length[length].error_ratio for length in (verdict.window.short_s, verdict.window.long_s)]
        if any(ratio is not None and math.isclose(ratio, limit, rel_tol=1e-9) for ratio in ratios):
            continue
        assert verdict.fires == all(ratio is not None and ratio > limit for ratio in ratios)


@given(st.lists(counts, min_size=7, max_size=7), targets, st.integers(1, 10**6))
def test_more_bad_events_never_end_an_alert(found: list[Counts], target: float, more: int) -> None:
    def firing(each: list[Counts]) -> list[bool]:
        return [verdict.fires for verdict in judge(dict(zip(lengths_s(WORKBOOK), each, strict=True)), target, PERIOD_S)]

    worse = [Counts(one.bad + more, one.total + more) for one in found]
    assert all(after >= before for before, after in zip(firing(found), firing(worse), strict=True))


def test_bad_events_outside_the_total_are_refused() -> None:
    with pytest.raises(ValueError, match="count every bad event in the total"):
        Counts(2, 1)


def test_a_verdict_says_why_it_does_not_fire() -> None:
    verdict: Verdict = judge({length: Counts(1, 2) for length in lengths_s(WORKBOOK)}, 0.999, PERIOD_S)[0]
    assert verdict.long == verdict.short == pytest.approx(500)
    assert not verdict.enough_events


@given(target=targets)
def test_a_window_is_silent_exactly_where_a_total_outage_does_not_fire_it(target: float) -> None:
    outage = dict.fromkeys(lengths_s(WORKBOOK), Counts(1_000, 1_000))
    fires = [one.window for one in judge(outage, target, PERIOD_S) if one.fires]
    assert [one for one in WORKBOOK if one not in silent_windows(WORKBOOK, target, PERIOD_S)] == fires


@pytest.mark.parametrize(("bad", "total", "reached"), [(3, 10, True), (2, 10, False), (3, 9, False), (10, 10, True)])
def test_the_minimum_is_reached_by_both_numbers_and_by_itself(bad: int, total: int, reached: bool) -> None:
    assert MinimumEvents().reached(Counts(bad, total)) is reached
    assert MinimumEvents().enough(np.array([bad]), np.array([total])).tolist() == [reached]


@pytest.mark.parametrize(
    ("long", "short", "enough", "fires"),
    [
        (2.1, 2.1, True, True),
        (2, 2.1, True, False),
        (2.1, 2, True, False),
        (2.1, 2.1, False, False),
        (None, 2.1, True, False),
        (2.1, None, True, False),
    ],
)
def test_a_verdict_fires_where_both_rates_exceed_the_threshold(
    long: float | None, short: float | None, enough: bool, fires: bool
) -> None:
    assert Verdict(WORKBOOK[0], 2, long, short, enough).fires is fires


def test_burn_rates_over_time_are_unknown_without_events() -> None:
    found = burn_rates(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 4]), 0.9)
    assert found == pytest.approx([math.nan, 0, 10, 5], nan_ok=True)


@pytest.mark.parametrize(("threshold", "never"), [(1.99, False), (2, True), (2.01, True)])
def test_a_threshold_that_a_total_outage_only_reaches_never_fires(threshold: float, never: bool) -> None:
    assert never_fires(threshold, 0.5) is never


def test_a_window_as_long_as_the_period_may_be_silent_and_no_longer_one() -> None:
    hour = BurnWindow("page", HOUR_S, 300, 1)  # in a period of an hour its threshold is the rate of a total outage
    assert silent_windows([hour], 1e-17, HOUR_S) == [hour]
    assert silent_windows(WORKBOOK, 0.999, DAY_S) == []


@pytest.mark.parametrize(("slice_s", "coarse"), [(300, 0), (301, 1), (1_800, 1), (1_801, 2)])
def test_windows_shorter_than_a_slice_are_coarse(slice_s: int, coarse: int) -> None:
    assert coarse_windows(WORKBOOK, slice_s) == list(WORKBOOK[:coarse])


def test_the_minimum_applies_to_the_requests_where_events_are_slices() -> None:
    slices = dict.fromkeys(lengths_s(WORKBOOK), Counts(1, 1))
    requests = {length: Counts(3, 10 if length == HOUR_S else 9) for length in lengths_s(WORKBOOK)}
    found = judge(slices, 0.999, PERIOD_S, requests=requests)
    assert [verdict.enough_events for verdict in found] == [True, False, False, False]
