"""The cases follow pkg/autoscaler/scaling/autoscaler_test.go of Knative serving."""

from tests.bench.references.kpa import Kpa
from tests.support.forecasting.simulate import requests, seen


def settled(policy: Kpa, in_flight: float, ready: int) -> int:
    """Its answer after 3 minutes of this."""
    for tick in range(90):
        wanted = policy.decide(seen(time_s=2.0 * tick, in_flight=in_flight, ready=ready, wanted=ready))
    return wanted


def kpa(ready: int = 1, target: float = 10.0) -> Kpa:
    policy = Kpa(target)
    policy.begin(requests(), ready)
    return policy


def test_in_stable_mode_it_divides_the_mean_of_a_minute_by_the_target() -> None:
    assert settled(kpa(8), 50, 8) == 5
    assert settled(kpa(1), 15, 1) == 2


def test_a_surge_that_needs_twice_the_ready_pods_is_panic_and_counts_at_once() -> None:
    policy = kpa()
    settled(policy, 10, 1)
    for tick in range(3):
        wanted = policy.decide(seen(time_s=180 + 2.0 * tick, in_flight=60, ready=1, wanted=1))
    assert wanted == 6  # the mean of a minute would have said 2


def test_it_does_not_go_down_in_panic_and_leaves_it_after_a_quiet_minute() -> None:
    policy = kpa()
    settled(policy, 10, 1)
    for tick in range(3):
        policy.decide(seen(time_s=180 + 2.0 * tick, in_flight=60, ready=1, wanted=1))
    wanted = [policy.decide(seen(time_s=186 + 2.0 * tick, in_flight=10, ready=6, wanted=6)) for tick in range(40)]
    assert wanted[:28] == [6] * 28
    assert wanted[-1] == 3  # at most half as many at once


def test_it_begins_in_panic_where_several_are_ready() -> None:
    assert kpa(4).decide(seen(time_s=2.0, in_flight=0, ready=4, wanted=4)) == 4
    assert kpa(1).decide(seen(time_s=2.0, in_flight=0, ready=1, wanted=1)) == 0
