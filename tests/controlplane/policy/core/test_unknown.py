"""Random histories in which facts become unknown: nothing is done because of that, and it is said (tests/bench/unknown)."""

from tests.bench.unknown.history import judged
from tests.support.soak import sized


def test_no_history_does_harm_with_what_is_not_known() -> None:
    assert [fault for number in range(sized(50, soak=5_000)) for fault in judged(seed=1, number=number)] == []
