"""Limits of a minute, as one gateway counts them alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.metering.rate_limit import SLOT_MS, SLOTS, Window, duration, limits_of
from inference.contract.snapshot import Key, Tier

MINUTE_MS = 60_000
steps = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 5)), max_size=80)


@given(st.integers(1, 20), steps)
def test_no_minute_has_more_than_the_limit(most: int, given_steps: list[tuple[int, int]]) -> None:
    """Each is let in while less than the limit is used, so the last one of a minute may overdraw."""
    window, now_ms, taken = Window(), 0, list[tuple[int, int]]()
    for pause_ms, units in given_steps:
        now_ms += pause_ms
        if window.wait_ms(most, now_ms) == 0:
            before = sum(earlier for at_ms, earlier in taken if at_ms > now_ms - MINUTE_MS)
            assert before < most
            window.take(units, now_ms)
            taken.append((now_ms, units))


@given(st.integers(1, 20), steps, st.integers(0, 30_000))
def test_after_the_wait_that_was_named_there_is_room_and_not_before(
    most: int, given_steps: list[tuple[int, int]], pause_ms: int
) -> None:
    window, now_ms = Window(), 0
    for step_ms, units in given_steps:
        now_ms += step_ms
        window.take(units, now_ms)
    now_ms += pause_ms
    wait_ms = window.wait_ms(most, now_ms)
    assert wait_ms <= (SLOTS + 1) * SLOT_MS
    if wait_ms:
        assert window.wait_ms(most, now_ms + wait_ms - 1) == 1
    assert window.wait_ms(most, now_ms + wait_ms) == 0


def test_a_steady_client_gets_its_limit() -> None:
    window, most = Window(), 600
    let_in = 0
    for now_ms in range(0, 10 * MINUTE_MS, 90):  # a little faster than allowed
        if window.wait_ms(most, now_ms) == 0:
            window.take(1, now_ms)
            let_in += 1
    assert 0.985 * 6000 <= let_in <= 6000


def test_what_was_not_used_is_given_back() -> None:
    window = Window()
    slot = window.take(100, 0)
    window.give_back(60, slot)
    assert window.used(1_000) == 40
    window.give_back(100, slot)
    assert window.used(1_000) == 0
    window.take(5, 70_000)
    window.give_back(5, slot)
    assert window.used(70_000) == 5, "its own minute is over"


def test_a_key_has_limits_beside_those_of_its_tenant() -> None:
    tier = Tier("t", requests_per_minute=5, max_in_flight=2)
    tenant = limits_of("a {b}", tier)
    assert [(limit.kind, limit.scope, limit.most) for limit in tenant] == [
        ("requests", "tenant", 5),
        ("in_flight", "tenant", 2),
    ]
    *same, key = limits_of("a {b}", tier, Key("ab" * 32, tokens_per_minute=7))
    assert tuple(same) == tenant
    assert (key.kind, key.scope, key.most) == ("tokens", "key", 7)
    assert {limit.key.partition(b"}")[0] for limit in (*tenant, key)} == {b"weir:limit:{a%20%7Bb%7D"}
    assert len({limit.key for limit in (*tenant, key)}) == 3


@pytest.mark.parametrize(("seconds", "text"), [(0.012, b"12ms"), (1.5, b"1.5s"), (90, b"1m30s")])
def test_durations_are_written_as_openai_writes_them(seconds: float, text: bytes) -> None:
    assert duration(seconds) == text
