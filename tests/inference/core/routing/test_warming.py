"""How a warm-up stands."""

from inference.core.routing.warming import Warming


def a_warming(requests: int, *, kept_back: bool = True) -> Warming:
    warming = Warming()
    warming.begin(requests, kept_back=kept_back)
    return warming


def test_a_replica_is_warm_once_it_has_answered_as_many_as_are_wanted() -> None:
    warming = a_warming(2)
    assert (warming.request_answered(), warming.missing, warming.kept_back) == (False, 1, True)
    assert (warming.request_answered(), warming.missing, warming.kept_back) == (True, 0, False)


def test_without_warm_up_requests_nothing_is_held() -> None:
    assert not Warming().kept_back
    assert not a_warming(0).kept_back
    assert not a_warming(3, kept_back=False).kept_back


def test_its_time_begins_when_it_first_comes_up_and_anew_when_it_is_cold_again() -> None:
    warming = a_warming(1)
    warming.came_up(100.0, 60)
    warming.came_up(130.0, 60)
    assert (warming.began_s, warming.until_s) == (100.0, 160.0)
    warming.begin(1, kept_back=True)
    warming.came_up(300.0, 60)
    assert warming.until_s == 360.0


def test_one_that_is_given_up_is_used_and_says_why() -> None:
    warming = a_warming(3)
    warming.give_up("no answer")
    assert (warming.kept_back, warming.missing, warming.given_up) == (False, 0, "no answer")
