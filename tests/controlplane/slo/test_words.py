from dataclasses import replace

from controlplane.slo import words
from controlplane.slo.objective import Objective
from controlplane.slo.sli import Availability

UP = Objective("up", "Up", Availability(), 0.999)


def test_a_scope_says_what_it_is_of_and_what_it_is_without() -> None:
    assert words.scope({}) == "all traffic"
    assert words.scope({"model": "chat", "prompt_bucket": "0-511"}) == "model chat · prompt bucket 0-511"
    assert words.scope({"pool": "", "model": "chat"}) == "model chat · no pool"


def test_requests_without_a_value_are_said_to_be_those() -> None:
    assert words.nowhere({"model": "chat"}) == ""
    assert words.nowhere({"pool": ""}).startswith("Requests that reached no pool: answered by the cache, refused")
    assert words.nowhere({"tenant": "", "pool": "p"}) == "Requests that say no tenant."


def test_no_requests_are_said_with_the_time_that_they_were_looked_for() -> None:
    assert words.no_requests(UP) == "no request of it in the last 30 days"
    assert "each pool is judged once it has one" in words.no_requests(replace(UP, split_by=("pool",)))
