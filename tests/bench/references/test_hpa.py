"""The cases are those of pkg/controller/podautoscaler/replica_calculator_test.go and horizontal_test.go, where a name is given."""

import pytest

from tests.bench.references.hpa import Hpa
from tests.support.forecasting.simulate import requests, seen


def hpa(target: float) -> Hpa:
    policy = Hpa(target)
    policy.begin(requests(), 1)
    return policy


@pytest.mark.parametrize(
    ("ready", "starting", "in_flight", "target", "expected"),
    [
        (3, 0, 60, 15, 4),  # TestReplicaCalcScaleUpCM: levels 20, 10, 30
        (5, 0, 60, 20, 3),  # TestReplicaCalcScaleDownCM: levels 12 × 5
        (3, 0, 3, 1.05, 3),  # TestReplicaCalcToleranceCM: a deviation of 5 %
        (1, 2, 30, 15, 3),  # starting pods count as idle going up, which leaves nothing to add
        (2, 2, 120, 15, 8),
        (3, 1, 15, 15, 2),  # … and as on target going down: (15 + 15) / 60 of 4 pods
    ],
)
def test_the_number_is_in_proportion_to_what_each_has_in_flight(
    ready: int, starting: int, in_flight: float, target: float, expected: int
) -> None:
    observed = seen(ready=ready, starting=starting, wanted=ready + starting, in_flight=in_flight, time_s=1e6)
    assert hpa(target).decide(observed) == expected


def test_without_a_ready_pod_it_has_no_metric_and_holds() -> None:
    assert hpa(10).decide(seen(ready=0, starting=3, wanted=3, in_flight=500)) == 3


def test_it_at_most_doubles_or_adds_four_within_15_s() -> None:
    policy = hpa(1)
    assert policy.decide(seen(time_s=15, ready=1, wanted=1, in_flight=100)) == 5
    assert policy.decide(seen(time_s=30, ready=5, wanted=5, in_flight=100)) == 10
    assert policy.decide(seen(time_s=45, ready=10, wanted=10, in_flight=100)) == 20


def test_it_goes_down_only_to_the_highest_recommendation_of_five_minutes() -> None:
    policy = hpa(10)
    assert policy.decide(seen(time_s=0, ready=4, wanted=4, in_flight=80)) == 8
    wanted = 8
    for time_s in range(15, 315, 15):
        wanted = policy.decide(seen(time_s=time_s, ready=8, wanted=wanted, in_flight=20))
        assert wanted == (8 if time_s < 300 else 2)


def test_a_replay_begins_without_what_the_last_left() -> None:
    policy = hpa(10)
    policy.decide(seen(time_s=0, ready=4, wanted=4, in_flight=80))
    policy.begin(requests(), 4)
    assert policy.decide(seen(time_s=15, ready=4, wanted=4, in_flight=10)) == 1
