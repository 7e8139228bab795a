import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.observe.core.reading import rates

totals = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("before", "now", "seconds", "found"),
    [
        ({"requests": 100}, {"requests": 150}, 5, {"requests_per_s": 10}),
        ({"requests": 100}, {"requests": 30}, 5, {"requests_per_s": 6}),  # it began anew
        ({}, {"requests": 100}, 5, {}),
        ({"requests": 100}, {}, 5, {}),
        ({"requests": 1}, {"requests": 2}, 0, {}),
        ({"requests": 9, "queue_ns": 5}, {"requests": 9, "queue_ns": 5}, 5, {"requests_per_s": 0}),  # no mean is zero
        (
            {"requests": 10, "queue_ns": 5_000_000},
            {"requests": 14, "queue_ns": 13_000_000},
            5,
            {"requests_per_s": 0.8, "mean_queue_ms": 2},
        ),
        ({"hits": 1, "misses": 1}, {"hits": 1, "misses": 1}, 5, {"hits_per_s": 0, "misses_per_s": 0}),
        (
            {"hits": 0, "misses": 0},
            {"hits": 3, "misses": 1},
            2,
            {"hits_per_s": 1.5, "misses_per_s": 0.5, "hit_ratio": 0.75},
        ),
    ],
)
def test_rates_and_means_are_of_what_two_looks_have_and_else_absent(
    before: dict[str, int], now: dict[str, int], seconds: float, found: dict[str, float]
) -> None:
    assert rates(before, now, seconds) == found


@given(before=totals, now=totals, seconds=st.floats(0.1, 1e4))
def test_no_rate_is_negative(before: int, now: int, seconds: float) -> None:
    assert rates({"errors": before}, {"errors": now}, seconds)["errors_per_s"] >= 0
