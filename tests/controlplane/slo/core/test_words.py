from dataclasses import replace

from controlplane.slo.core import words
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability

UP = Objective("up", "Up", Availability(), 0.999)


def test_a_scope_names_its_values_and_missing_values() -> None:
    assert words.scope({}) == "all traffic"
    assert words.scope({"model": "chat", "prompt_bucket": "0-511"}) == "model chat · prompt bucket 0-511"
    assert words.scope({"pool": "", "model": "chat"}) == "model chat · no pool"


def test_requests_without_a_value_are_explained() -> None:
    assert words.missing_values({"model": "chat"}) == ""
    assert words.missing_values({"pool": ""}).startswith(
        "Requests that reached no pool: answered by the cache, refused"
    )
    assert words.missing_values({"tenant": "", "pool": "p"}) == "Requests that name no tenant."


def test_no_requests_are_reported_with_the_period() -> None:
    assert words.no_requests(UP) == "no request in the last 30 days"
    assert "each pool is judged from its first request on" in words.no_requests(replace(UP, split_by=("pool",)))


def test_the_recorded_part_of_a_period_is_reported() -> None:
    day = 86_400
    assert words.recorded_part(30 * day - 31 * 60, 0, 30 * day) == "31 min of 30 days"
    assert words.recorded_part(None, 0, 30 * day) == ""
    assert words.recorded_part(-5, 0, 30 * day) == ""
    assert words.recorded_part(40 * day, 0, 30 * day) == "0 s of 30 days"
