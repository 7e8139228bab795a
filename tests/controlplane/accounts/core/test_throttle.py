"""A minute's requests at once, which come back evenly; what is refused is not counted."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.accounts.core.throttle import MINUTE_S, Throttle


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=200))
def test_no_more_than_a_minute_s_at_once_and_after_the_wait_there_is_room(most: int, pauses: list[float]) -> None:
    throttle, now_s, taken = Throttle(), 1_000.0, list[float]()
    for pause_s in pauses:
        now_s += pause_s
        wait_s = throttle.wait_s(1, most, now_s)
        assert 0 <= wait_s <= MINUTE_S / most + 1e-6
        if wait_s:
            now_s += wait_s + 1e-6
            assert not throttle.wait_s(1, most, now_s)
        taken.append(now_s)
        assert sum(at_s > now_s - 1e-3 for at_s in taken) <= most + 1
        assert sum(at_s > now_s - MINUTE_S for at_s in taken) <= 2 * most + 1


def test_callers_are_counted_apart() -> None:
    throttle = Throttle()
    assert [throttle.wait_s(caller, 1, 0.0) for caller in (1, 2, 1)] == [0.0, 0.0, MINUTE_S]
