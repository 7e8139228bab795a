from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.observe.core.reading import increases, rates

totals = st.integers(0, 10**9)


def test_a_rate_is_the_growth_per_second() -> None:
    assert rates({"requests": 100}, {"requests": 150}, 5)["requests_per_s"] == 10


def test_a_counter_that_began_anew_has_grown_by_what_it_shows() -> None:
    assert increases({"requests": 1_000}, {"requests": 30}) == {"requests": 30}


def test_a_counter_that_only_one_look_has_says_nothing() -> None:
    assert rates({}, {"requests": 100}, 5) == {}
    assert rates({"requests": 100}, {}, 5) == {}


def test_no_time_between_two_looks_is_no_rate() -> None:
    assert rates({"requests": 1}, {"requests": 2}, 0) == {}


def test_a_mean_of_no_requests_is_not_zero() -> None:
    idle = {"requests": 10, "queue_ns": 5_000_000}
    assert "mean_queue_ms" not in rates(idle, idle, 5)


def test_means_are_over_the_requests_between_the_looks() -> None:
    figures = rates({"requests": 10, "queue_ns": 5_000_000}, {"requests": 14, "queue_ns": 13_000_000}, 5)
    assert figures["mean_queue_ms"] == 2
    assert "queue_ns_per_s" not in figures


def test_a_hit_ratio_of_no_lookups_is_not_zero() -> None:
    assert "hit_ratio" not in rates({"hits": 1, "misses": 1}, {"hits": 1, "misses": 1}, 5)
    assert rates({"hits": 0, "misses": 0}, {"hits": 3, "misses": 1}, 5)["hit_ratio"] == 0.75


@given(before=totals, now=totals, seconds=st.floats(0.1, 1e4))
def test_no_rate_is_negative(before: int, now: int, seconds: float) -> None:
    assert rates({"errors": before}, {"errors": now}, seconds)["errors_per_s"] >= 0
