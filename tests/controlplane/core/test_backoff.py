"""The wait before another try."""

import pytest

from controlplane.core.backoff import doubled_s


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 0.5), (1, 0.5), (2, 1.0), (5, 8.0), (6, 10.0), (10_000, 10.0)])
def test_it_doubles_with_each_failure_up_to_the_longest(failures: int, wait_s: float) -> None:
    assert doubled_s(0.5, failures, 10.0) == wait_s
