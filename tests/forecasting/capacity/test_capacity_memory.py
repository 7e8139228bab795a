"""What stays known of a capacity that traffic no longer shows, and which source counts."""

import pytest

from forecasting.capacity.capacity_memory import chosen_capacity, still_known
from forecasting.capacity.replica_capacity import Measured
from tests.support.capacity import TokenMix, capacity

DAY = 20_000


def measured(requests_per_s: float, *lost_on: int, **changes: object) -> Measured:
    seen = capacity(requests_per_s, lower_bound=not lost_on, shown_on=DAY, lost_on=lost_on, **changes)
    return Measured(seen, "Measured.", lost_on)


def test_a_load_that_was_carried_stays_known_when_traffic_does_not_show_it_any_more() -> None:
    before = capacity(4.0, lower_bound=True, shown_on=DAY)
    for now in (measured(3.2), Measured(None, "Too little was measured.")):
        known = still_known(before, now)
        assert known.capacity is not None and known.capacity.requests_per_s == 4.0
        assert known.reason.startswith("At least 4 requests/s a replica, which it carried until 2024-10-04. ")
        assert known.reason.endswith(now.reason)
    assert still_known(before, measured(5.0)).capacity == measured(5.0).capacity
    assert still_known(None, measured(3.2)) == measured(3.2)


def test_the_same_load_but_for_chance_does_not_wear_it_down() -> None:
    before = capacity(4.0, lower_bound=True, shown_on=DAY - 7)
    known = still_known(before, measured(3.8, DAY - 1)).capacity
    assert known is not None and (known.requests_per_s, known.lower_bound, known.shown_on) == (4.0, False, DAY)


@pytest.mark.parametrize(("lost_on", "rps"), [((DAY + 1, DAY + 2), 4.0), ((DAY + 1, DAY + 2, DAY + 3), 2.0)])
def test_it_takes_three_days_that_lost_the_objective_to_believe_in_less(lost_on: tuple[int, ...], rps: float) -> None:
    known = still_known(capacity(4.0, shown_on=DAY), measured(2.0, *lost_on)).capacity
    assert known is not None and known.requests_per_s == rps
    lost_at_all = still_known(capacity(4.0, shown_on=DAY), Measured(None, "Never kept.", lost_on)).capacity
    assert (lost_at_all is None) == (rps == 2.0)


def test_heavier_requests_are_no_lower_capacity() -> None:
    before = capacity(4.0, shown_on=DAY, lower_bound=True)  # of 500 tokens in and 200 out
    twice = measured(2.1, mix=TokenMix(1000, 400))
    assert still_known(before, twice) == twice


def test_the_ledger_counts_before_a_benchmark_and_that_before_what_was_entered() -> None:
    ledger, entered = capacity(3.0, lost_on=(DAY, DAY + 1, DAY + 2)), capacity(5.0, source="entered")
    benchmark = capacity(4.0, source="benchmark")
    assert chosen_capacity(ledger, benchmark, entered) is ledger
    assert chosen_capacity(None, benchmark, entered) is benchmark
    assert chosen_capacity(None, None, entered) is entered
    assert chosen_capacity(None, None, None) is None


def test_a_lower_bound_of_the_ledger_yields_to_a_higher_benchmark() -> None:
    ledger = capacity(3.0, lower_bound=True)
    chosen = chosen_capacity(ledger, capacity(4.0, source="benchmark", reason="Run 7."), None)
    assert chosen is not None and (chosen.requests_per_s, chosen.source) == (4.0, "benchmark")
    assert chosen.reason == "Run 7. Traffic has shown only that it is at least 3 requests/s."
    assert chosen_capacity(ledger, capacity(2.0, source="benchmark"), None) is ledger


def test_an_incident_does_not_beat_a_fresh_benchmark() -> None:
    benchmark = capacity(4.0, source="benchmark", reason="Run 7.", shown_on=DAY)
    once = capacity(2.0, lost_on=(DAY - 1, DAY, DAY + 1, DAY + 2))
    chosen = chosen_capacity(once, benchmark, None)
    assert chosen is not None and chosen.requests_per_s == 4.0
    assert chosen.reason == "Run 7. Above 2 requests/s traffic lost the objective on fewer than 3 days after it."
    thrice = capacity(2.0, lost_on=(DAY + 1, DAY + 2, DAY + 3))
    assert chosen_capacity(thrice, benchmark, None) is thrice
