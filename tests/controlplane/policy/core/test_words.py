"""Counts and times as reasons say them."""

import pytest

from controlplane.policy.core.words import replicas, seconds


@pytest.mark.parametrize(
    ("time_s", "said"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h"), (9_000, "2.5 h")],
)
def test_a_time_is_in_the_unit_of_its_length(time_s: float, said: str) -> None:
    assert seconds(time_s) == said


def test_a_single_replica_is_no_plural() -> None:
    assert [replicas(count) for count in (0, 1, 2)] == ["0 replicas", "1 replica", "2 replicas"]
