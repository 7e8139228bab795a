"""The health of a replica."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.failure_rules import EJECTION, Ejection
from inference.core.routing.health import Health


def up(rule: Ejection = EJECTION) -> Health:
    health = Health(rule)
    health.answered()
    return health


def fail(health: Health, times: Iterable[float]) -> Health:
    for at_s in times:
        health.failed(at_s, at_s)
    return health


def test_a_replica_that_is_well_again_is_forgiven() -> None:
    health = Health()
    for _ in range(50):
        health.call_failed(0.0)
    assert health.debt(0.0) == Health.MAX_DEBT
    assert health.debt(60.0) == 0
    health.call_failed(100.0)
    for _ in range(3):
        health.call_answered(100.0)
    assert health.debt(100.0) == 0


@pytest.mark.parametrize("probes", [1, 3, 5])
def test_so_many_failures_in_a_row_take_a_replica_out_and_fewer_never(probes: int) -> None:
    health = up(Ejection(probes=probes))
    for run in range(4):
        fail(health, range(10 * run, 10 * run + probes - 1))
        assert (health.state, health.next_probe_s(5.0)) == ("up", 0.1 if probes > 1 else 5.0)
        health.answered()
        assert health.next_probe_s(5.0) == 5.0
    fail(health, range(100, 100 + probes))
    assert health.state == "down"


def test_failures_that_were_under_way_together_are_one() -> None:
    health = up()
    for _ in range(10):
        health.failed(1.0, 2.0)
    assert (health.state, health.failures) == ("up", 1)
    lost = up()
    for _ in range(10):
        assert not lost.call_lost(1.0, 2.0)
    assert not lost.ejected(2.0)
    assert lost.debt(2.0) == 1


def test_only_probes_and_trials_bring_a_replica_back_and_probes_slow_down() -> None:
    health, waits = Health(), []
    for at_s in range(8):
        fail(health, [at_s])
        assert health.state == "down", "it was never up"
        waits.append(health.next_probe_s(5.0))
    assert health.state == "down"
    assert waits == [0.1, 0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    health.call_answered(9.0)
    assert health.state == "unknown", "the answer to a trial"
    assert fail(health, [10.0]).state == "down"
    health.answered()
    assert (health.state, health.next_probe_s(5.0)) == ("up", 5.0)


def test_a_probe_that_meets_a_busy_server_says_that_it_lives() -> None:
    health = fail(up(), [0.0, 1.0])
    health.answered_busy()
    assert fail(health, [2.0, 3.0]).state == "up", "not in a row"
    fail(health, [4.0])
    health.answered_busy()
    assert health.state == "unknown"


def test_five_failures_in_a_row_eject_and_longer_each_time() -> None:
    health, now_s, lasted = Health(), 0.0, []
    for _ in range(4):
        assert not health.call_failed(now_s)
    assert health.call_failed(now_s)
    for _ in range(12):
        assert health.ejected(now_s)
        assert not health.call_failed(now_s), "calls that were under way eject no further"
        lasted.append(health.ejected_until_s - now_s)
        now_s = health.ejected_until_s
        assert health.on_trial(now_s)
        assert health.call_failed(now_s)
    assert lasted == [30.0 * times for times in range(1, 11)] + [300.0, 300.0]


def test_an_answer_ends_the_trial_and_time_the_memory() -> None:
    health = Health()
    while not health.call_failed(0.0):
        pass
    assert not health.call_answered(1.0), "of a call from before"
    assert health.ejected(1.0)
    assert health.call_answered(30.0)
    assert not health.ejected(30.0)
    assert not health.on_trial(30.0)
    while not health.call_failed(45.0):
        pass
    assert health.ejected_until_s == 45 + 30, "the first was forgotten after 10 s"


@given(st.integers(1, 90), st.integers(1, 100))
def test_the_share_of_failures_ejects_from_its_threshold_on(threshold: int, failing: int) -> None:
    """Spread evenly, so that few are in a row."""
    rule = Ejection(failures=0, failure_percent=threshold)
    health, owed, ejected = up(rule), 0, False
    for number in range(400):
        owed += failing
        if owed >= 100:
            owed -= 100
            ejected |= health.call_failed(number * 0.01)
        else:
            health.call_answered(number * 0.01)
    if failing < threshold - 8:
        assert not ejected
    elif failing >= threshold:
        assert ejected


def test_too_few_calls_say_nothing_of_a_share_and_both_rules_can_be_switched_off() -> None:
    rarely, never = up(Ejection(failures=0)), up(Ejection(failures=0, failure_percent=0))
    for number in range(40):
        assert not rarely.call_failed(number * 5.0), "one in five seconds"
        assert not never.call_failed(number * 0.01)


def test_busy_is_not_broken_and_one_call_is_tried_after_each_pause() -> None:
    health, now_s = Health(), 0.0
    health.call_busy(now_s)
    for wait_s in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0):
        assert health.busy(now_s + wait_s - 0.001)
        now_s += wait_s + 0.001
        assert not health.busy(now_s)
        health.call_sent(now_s)
        assert health.busy(now_s), "the next call goes elsewhere"
        health.call_busy(now_s + 0.01)  # no longer pause than the trial has begun
        health.call_busy(now_s + 0.01)
    assert (health.debt(now_s), health.ejected(now_s)) == (0, False)
    health.call_answered(now_s + 0.02)
    assert not health.busy(now_s + 0.02)
    health.call_sent(now_s + 0.02)
    assert not health.busy(now_s + 0.02)


def test_a_pause_lasts_as_long_as_the_server_says_and_no_answer_to_an_earlier_call_ends_it() -> None:
    health = Health()
    health.call_busy(0.0, 20.0)
    health.call_busy(1.0, 5.0)
    assert health.busy(19.9)
    assert not health.busy(20.1)
    health.call_busy(20.1)
    assert health.busy(20.4), "the third answer in a row"
    assert not health.busy(20.6)
    health = Health()
    health.call_busy(0.0)
    health.call_answered(0.01)
    assert health.busy(0.02)
