from dataclasses import replace
from datetime import datetime

import pytest

from controlplane.slo.core import words
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted
from controlplane.slo.core.objective import Calendar, Objective, Timeslices
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import BurnWindow

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
        (Cost(0.25), "1,000 tokens cost at most 0.25 USD"),
        (Histogram("vllm:ttft", 0.5), "vllm:ttft is at most 0.5"),
    ],
)
def test_an_indicator_is_said_with_its_threshold(indicator: Indicator, said: str) -> None:
    assert words.indicator(indicator) == said


MONTH = Calendar("month", datetime(2026, 1, 1), "UTC")
PAGE = BurnWindow("page", 3_600, 300, 0.02)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.summary(UP), "99.9 %: requests are answered, over the last 30 days"),
        (words.summary(replace(UP, method=Timeslices(60, 0.95), period=MONTH, indicator=Availability(True))),
         "99.9 % of 1 min slices with 95 % good requests: requests are answered, clients' mistakes counted, over each month"),
        (words.period(replace(UP, period=replace(MONTH, count=2))), "each 2 months"),
        (words.no_requests(replace(UP, period=MONTH)), "no request so far in this period"),
        (words.missing_values({"pool": "", "region": "", "tier": "", "model": ""}),
         "Requests that reached no pool and no region: answered by the cache, refused, or failed before, and name no model and no tier."),
        (words.coarse_window(PAGE, 600), "the page window of 1 h and 5 min is shorter than a slice of 10 min: it shows only the current "
         "slice, so an alert may end when the next slice begins; use slices of at most 5 min, or longer windows"),
        (words.silent_window(PAGE, 0.93, 2_592_000), "the page window of 1 h and 5 min never fires: its threshold is a burn rate of "
         "14.4×, and at a target of 93 % a total outage burns at 14.3×; give it a share of the budget below 0.019, or remove it"),
        (words.part_of(Span(60 * SECOND_NS - 1, 10), Span(0, 600 * SECOND_NS)), ""),
        (words.part_of(Span(60 * SECOND_NS, 360 * SECOND_NS), Span(0, 600 * SECOND_NS)), "50 % of the 10 min"),
        (words.recorded_part(60, 0, 600), ""),
        (words.recorded_part(61, 0, 6_000), "99 min of 100 min"),
        (words.change(None, 0.5), ""),
        (words.change(0.5, None), ""),
        (words.change(0.5, 0.5), "the same"),
        (words.change(0.75, 0.5), "25 points better"),
        (words.change(0.5, 0.75), "25 points worse"),
        (words.used_up_in(None, None), ""),
        (words.used_up_in(5, 0), "used up"),
        (words.used_up_in(5, 1), "used up in 1 min at this rate"),
        (words.used_up_in(600, None), "used up in 10 min at this rate"),
    ],
)  # fmt: skip
def test_what_is_said(said: str, expected: str) -> None:
    assert said == expected


def test_counts_are_empty_where_neither_the_period_nor_a_window_has_an_event() -> None:
    none, one = Counts(), Counts(0, 1)
    empty = [Counted({300: window}, period, 0).is_empty for window in (none, one) for period in (none, one)]
    assert empty == [True, False, False, False]
