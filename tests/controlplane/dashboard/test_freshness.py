"""Stale data is never green."""

import pytest

from controlplane.dashboard.core.freshness import freshness

SECOND = 10**9


@pytest.mark.parametrize(
    ("age_s", "state"),
    [(0, "fresh"), (29, "fresh"), (31, "ageing"), (299, "ageing"), (301, "stale"), (90_000, "stale")],
)
def test_age_decides_the_state(age_s: int, state: str) -> None:
    assert freshness(10**18, 10**18 + age_s * SECOND, live=True).state == state


def test_every_state_has_its_own_icon_and_word() -> None:
    seen = [freshness(10**18, 10**18 + age * SECOND, live=True) for age in (0, 60, 600)]
    seen += [freshness(None, 10**18, live=True), freshness(10**18, 10**18, live=False)]
    assert len({one.icon for one in seen}) == len({one.word for one in seen}) == len(seen)


def test_a_range_in_the_past_claims_neither() -> None:
    assert freshness(1, 10**18, live=False).state == "fixed"


def test_a_clock_that_is_ahead_of_ours_is_no_negative_age() -> None:
    assert freshness(10**18 + SECOND, 10**18, live=True).age_s == 0
