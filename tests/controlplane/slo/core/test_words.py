from dataclasses import replace

from controlplane.slo.core import words
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability

UP = Objective("up", "Up", Availability(), 0.999)


def test_a_scope_says_what_it_is_of_and_what_it_is_without() -> None:
    assert words.scope({}) == "all traffic"
    assert words.scope({"model": "chat", "prompt_bucket": "0-511"}) == "model chat · prompt bucket 0-511"
    assert words.scope({"pool": "", "model": "chat"}) == "model chat · no pool"


def test_requests_without_a_value_are_said_to_be_those() -> None:
    assert words.nowhere({"model": "chat"}) == ""
    assert words.nowhere({"pool": ""}).startswith("Requests that reached no pool: answered by the cache, refused")
    assert words.nowhere({"tenant": "", "pool": "p"}) == "Requests that name no tenant."


def test_no_requests_are_said_with_the_time_that_they_were_looked_for() -> None:
    assert words.no_requests(UP) == "no request in the last 30 days"
    assert "each pool is judged from its first request on" in words.no_requests(replace(UP, split_by=("pool",)))


def test_how_much_of_the_period_is_recorded_is_said_where_it_is_not_all() -> None:
    day = 86_400
    assert words.history(30 * day - 31 * 60, 0, 30 * day) == "31 min of 30 days"
    assert words.history(None, 0, 30 * day) == ""
    assert words.history(-5, 0, 30 * day) == ""
    assert words.history(40 * day, 0, 30 * day) == "0 s of 30 days"
