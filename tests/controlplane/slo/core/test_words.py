from dataclasses import replace

import pytest

from controlplane.slo.core import words
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency

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


@pytest.mark.parametrize(
    ("indicator", "said"),
    [
        (Availability(), "requests are answered"),
        (Latency("ttft", 1_500), "time to first token (gateway) is at most 1.5 s"),
        (Latency("e2e", 500), "whole request is at most 500 ms"),
        (Latency("queue", 500), "queue time is at most 500 ms"),
        (Cost(0.25), "1,000 tokens cost at most $0.25"),
        (Histogram("vllm:ttft", 0.5), "vllm:ttft is at most 0.5"),
    ],
)
def test_an_indicator_is_said_with_its_threshold(indicator: Indicator, said: str) -> None:
    assert words.indicator(indicator) == said


def test_counts_are_empty_where_neither_the_period_nor_a_window_has_an_event() -> None:
    none, one = Counts(), Counts(0, 1)
    empty = [Counted({300: window}, period, 0).is_empty for window in (none, one) for period in (none, one)]
    assert empty == [True, False, False, False]
