"""The health of a replica."""

from inference.core.routing.health import Health


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


def test_a_few_slow_probes_do_not_take_a_replica_out() -> None:
    health = Health()
    health.answered()
    for _ in range(2):
        health.delayed()
        assert (health.state, health.next_probe_s(5.0)) == ("up", 0.1)
    health.answered()
    assert health.next_probe_s(5.0) == 5.0
    for _ in range(3):
        health.delayed()
    assert health.state == "down"


def test_only_a_probe_brings_a_replica_back_and_probes_slow_down() -> None:
    health = Health()
    waits = []
    for _ in range(8):
        health.failed()
        waits.append(health.next_probe_s(5.0))
    assert health.state == "down"
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.1, 2.0)
    health.answered()
    assert (health.state, health.next_probe_s(5.0)) == ("up", 5.0)


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


def test_a_third_of_the_calls_may_fail_before_it_is_ejected() -> None:
    seldom, often = Health(), Health()
    for number in range(300):
        for health, every in ((seldom, 4), (often, 2)):
            (health.call_failed if number % every == 0 else health.call_answered)(number * 0.01)
    assert not seldom.ejected(3.0)
    assert often.ejected(3.0)


def test_busy_is_not_broken() -> None:
    health, now_s = Health(), 0.0
    for wait_s in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0):
        health.call_busy(now_s)
        health.call_busy(now_s)
        assert health.busy(now_s + wait_s - 0.001)
        now_s += wait_s + 0.001
        assert not health.busy(now_s)
    assert (health.debt(now_s), health.ejected(now_s)) == (0, False)
    health.call_answered(now_s)
    health.call_busy(now_s)
    assert not health.busy(now_s + 0.11)


def test_a_busy_replica_is_tried_with_one_call_after_each_pause() -> None:
    health, now_s = Health(), 0.0
    health.call_busy(now_s)
    for wait_s in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0):
        now_s += wait_s + 0.001
        assert not health.busy(now_s)
        health.call_sent(now_s)
        assert health.busy(now_s), "the next call goes elsewhere"
        health.call_busy(now_s + 0.01)  # no longer pause than the trial has begun
    health.call_answered(now_s + 0.02)
    assert not health.busy(now_s + 0.02)
    health.call_sent(now_s + 0.02)
    assert not health.busy(now_s + 0.02)


def test_an_answer_to_an_earlier_call_ends_no_pause() -> None:
    health = Health()
    health.call_busy(0.0)
    health.call_answered(0.01)
    assert health.busy(0.02)
