"""Who may get a call."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.failure_rules import Ejection
from inference.core.routing.candidates import places, usable
from tests.inference.core.routing.candidates import Replica, down, eject, up


def test_an_ejected_replica_gets_nothing_while_others_do_and_then_one_call_at_a_time() -> None:
    failing, well = eject(up(), 0.0), up()
    assert usable([failing, well], 1.0) == [well]
    assert failing in usable([failing, well], 31.0)
    failing.load.own = 1
    assert failing not in usable([failing, well], 31.0)
    failing.health.call_answered(31.0)
    assert failing in usable([failing, well], 31.0)


def test_while_too_few_are_left_no_ejection_counts() -> None:
    failing, well = eject(up(), 0.0), up()
    assert usable([failing, down(), well], 1.0) == [failing, well]
    assert usable([eject(up(), 0.0)], 1.0), "a pool of one"


@pytest.mark.parametrize("away", [down, lambda: eject(up(), 0.0)])
def test_the_last_replica_gets_one_call_at_a_time_unless_it_says_that_it_does_not_serve(
    away: Callable[[], Replica],
) -> None:
    without_panic, last = Ejection(panic_percent=0), away()
    assert usable([last], 1.0, without_panic) == [last]
    last.load.own = 1
    assert usable([last], 1.0, without_panic) == []
    unfit = Replica()
    unfit.health.failed(0.0, 0.0, unfit=True)
    assert usable([unfit], 1.0) == []


def test_how_many_are_ejected_and_when_none_is_are_the_owner_s() -> None:
    failing, well = [eject(up(), 0.0) for _ in range(6)], [up() for _ in range(4)]
    assert len(usable([*failing, *well], 1.0, Ejection(most_percent=50))) == 5
    assert usable([*failing, *well], 1.0, Ejection(most_percent=100, panic_percent=40)) == well
    assert len(usable([*failing, *well], 1.0, Ejection(most_percent=100, panic_percent=41))) == 10


@given(st.lists(st.sampled_from(["up", "down", "ejected", "leaving"]), min_size=1, max_size=30))
def test_ejections_take_away_at_most_a_tenth_or_one(states: list[str]) -> None:
    made = {"up": up, "down": down, "ejected": lambda: eject(up(), 0.0), "leaving": up}
    replicas: list[Replica] = []
    for state in states:
        replicas.append(made[state]())
        replicas[-1].leaving = state == "leaving"
    there = [replica for replica, state in zip(replicas, states, strict=True) if state in ("up", "ejected")]
    there = there or [replica for replica in replicas if replica.leaving]
    given_out = usable(replicas, 1.0)
    assert given_out, "the last ones are tried"
    assert all(replica in there for replica in given_out) or not there
    assert len(given_out) >= len(there) - max(1, len(states) // 10)
    assert all(replica in given_out for replica, state in zip(replicas, states, strict=True) if state == "up")


def test_a_pool_takes_what_its_replicas_that_are_up_can_work_on() -> None:
    leaving, unknown = up(in_flight=3), Replica()
    leaving.leaving = True
    assert places(64, 2, [up(), up(), down(), unknown], 1.0) == 4
    assert places(64, 2, [up(), up(), leaving], 1.0) == 7, "the requests of the leaving one take nobody's place"
    assert places(3, 2, [up(), up()], 1.0) == 3
    assert places(64, 2, [eject(up(), 0.0), up()], 1.0) == 2
    assert places(64, 0, [up()], 1.0) == 64, "no limit"
    assert places(64, 2, [down()], 1.0) == 64, "each is answered that there is none"


def test_a_replica_that_warms_up_gives_places_only_where_no_other_does() -> None:
    warm, cold = up(), up()
    cold.warming.begin(1, kept_back=True)
    assert places(64, 4, [warm, cold], 0.0) == 4
    assert places(64, 4, [cold], 0.0) == 4
    cold.warming.request_answered()
    assert places(64, 4, [warm, cold], 0.0) == 8
