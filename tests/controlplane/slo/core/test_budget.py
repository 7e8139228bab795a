import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.slo.core.budget import Budget, budget
from controlplane.slo.core.burn import burn_rate
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import DAY_S, HOUR_S

PERIOD_S = 30 * DAY_S
counts = st.integers(1, 10**6).flatmap(lambda total: st.integers(0, total).map(lambda bad: Counts(bad, total)))


def test_a_budget_by_hand() -> None:
    found = budget(Counts(250, 1_000_000), 0.999)
    assert found.allowed == pytest.approx(1_000)
    assert found.left_share == pytest.approx(0.75)
    assert budget(Counts(3_000, 1_000_000), 0.999).left_share == pytest.approx(-2)
    assert budget(Counts(), 0.999).left_share == 1


def test_a_full_budget_at_a_burn_rate_of_fourteen_lasts_two_days() -> None:
    assert budget(Counts(0, 1_000), 0.999).lasts_s(14.4, PERIOD_S) == pytest.approx(50 * HOUR_S)


def test_a_used_up_budget_lasts_no_time_and_an_unused_one_for_ever() -> None:
    used_up, full = budget(Counts(10, 1_000), 0.999), budget(Counts(0, 1_000), 0.999)
    assert used_up.lasts_s(1, PERIOD_S) == 0
    assert full.lasts_s(0, PERIOD_S) == math.inf
    assert full.lasts_s(None, PERIOD_S) is None


@given(counts, st.floats(0.5, 0.9999))
def test_the_share_burned_is_the_periods_burn_rate(found: Counts, target: float) -> None:
    """Sloth's slo:error_budget_remaining:ratio = 1 − slo:period_burn_rate:ratio."""
    rate = burn_rate(found, target)
    assert rate is not None
    assert budget(found, target).left_share == pytest.approx(1 - rate, rel=1e-9, abs=1e-9)


@given(st.floats(0.01, 1), st.floats(0.01, 50), st.integers(60, PERIOD_S))
def test_in_a_partial_period_the_budget_of_the_time_so_far_is_used_up(left: float, rate: float, elapsed_s: int) -> None:
    """By counting: at even traffic of one request a second, bad ones come at `rate` times the budget."""
    found = Budget(0.0, 0, left).lasts_s(rate, PERIOD_S, elapsed_s)
    assert found is not None
    if elapsed_s + found <= PERIOD_S:  # still in the period: all allowed by then is all that was bad
        assert (1 - left) * elapsed_s + rate * found == pytest.approx(elapsed_s + found)
    else:
        assert found >= PERIOD_S - elapsed_s - 1e-6


def test_half_of_what_an_hour_allows_does_not_last_days() -> None:
    """An hour into a month, half of that hour's budget is left: at 11 times the budget it is used up in three minutes."""
    assert Budget(0.0, 0, 0.5).lasts_s(11, PERIOD_S, 3_600) == 180
    assert Budget(0.0, 0, 0.5).lasts_s(11, PERIOD_S, PERIOD_S) == pytest.approx(0.5 * PERIOD_S / 11)


@pytest.mark.parametrize(
    ("left_share", "burn_rate", "elapsed_s", "lasts_s"),
    [
        (0, None, None, 0),  # used up, whatever the rate
        (0.5, 0.5, None, math.inf),  # each second allows more than it uses
        (0.5, 2, None, 250),
        (0.5, 2, 1_500, 250),  # no more than the period has passed
        (1, 1, 0, math.inf),  # each second allows what it uses
        (0.5, 1, 100, math.inf),
        (0.5, 1.5, 100, 50 / 0.5),
        (1, 1.5, 900, 100 + (900 - 50) / 1.5),
        (1, 2, 500, 500),  # used up just as the period ends
    ],
)
def test_a_budget_lasts_as_counted_by_hand_in_a_period_of_a_thousand_seconds(
    left_share: float, burn_rate: float | None, elapsed_s: float | None, lasts_s: float
) -> None:
    assert Budget(0.0, 0, left_share).lasts_s(burn_rate, 1_000, elapsed_s) == pytest.approx(lasts_s)
