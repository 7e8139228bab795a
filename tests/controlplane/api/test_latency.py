"""`GET /api/v1/latency`: the shape that others build on, and figures that are those of the rows."""

from collections import Counter

import numpy as np
import pytest
from django.test import Client

from inference.contract.stages import STAGES
from tests.support.web.api import get
from tests.support.web.served import Filled


def test_it_counts_the_requests_and_gives_their_exact_quantiles(caller: Client, served: Filled) -> None:
    found = get(caller, "latency", **served.range)
    e2e_ms = [row.e2e_ns / 1e6 for row in served.answered]
    assert found["answered"] == len(e2e_ms) < len(served.rows)
    failed = served.of(status="error")
    assert [(each["error_type"], each["requests"]) for each in found["failures"]] == Counter(
        row.error_type for row in failed
    ).most_common()
    assert found["requests"] == len(served.rows)
    assert found["errors"] == len(served.of(status="error"))
    assert found["e2e_ms"] == {
        name: pytest.approx(np.quantile(e2e_ms, q), rel=1e-6)
        for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


def test_shares_are_of_all_time_and_sum_to_one(caller: Client, served: Filled) -> None:
    found = get(caller, "latency", **served.range)
    total = sum(row.e2e_ns for row in served.answered)
    assert set(found["stages"]) == set(STAGES)
    for stage, figures in found["stages"].items():
        assert figures["share"] == pytest.approx(sum(row.stages[stage] for row in served.answered) / total, abs=1e-6)
        assert {"p50_ms", "p95_ms", "p99_ms", "share"} <= set(figures)
    assert sum(figures["share"] for figures in found["stages"].values()) + found["unattributed_share"] == pytest.approx(
        1, abs=1e-4
    )


def test_ttft_says_which_definition_it_is(caller: Client, served: Filled) -> None:
    found = get(caller, "latency", **served.range)
    with_ttft = [row.ttft_ns / 1e6 for row in served.answered if row.ttft_ns is not None]
    assert found["ttft_ms"]["definition"] == "gateway"
    assert found["ttft_ms"]["p95"] == pytest.approx(np.quantile(with_ttft, 0.95), rel=1e-6)
    assert found["ttft_ms_by_definition"] == {
        "gateway": {**{q: found["ttft_ms"][q] for q in ("p50", "p95", "p99")}, "requests": len(with_ttft)}
    }


@pytest.mark.parametrize(
    ("parameter", "column", "value"),
    [
        ("model", "model", "chat-small"),
        ("tier", "tier", "premium"),
        ("cache", "cache_outcome", "hit"),
        ("status", "status", "error"),
        ("tenant", "tenant", "docs"),
    ],
)
def test_a_filter_keeps_the_requests_that_match(
    caller: Client, served: Filled, parameter: str, column: str, value: str
) -> None:
    found = get(caller, "latency", **served.range, **{parameter: value})
    assert found["requests"] == len(served.of(**{column: value})) > 0


def test_groups_are_reports_of_their_own_that_add_up(caller: Client, served: Filled) -> None:
    found = get(caller, "latency", **served.range, group_by="model")
    assert {value: group["requests"] for value, group in found["groups"].items()} == {
        model: len(served.of(model=model)) for model in ("chat-large", "chat-small")
    }
    assert found["groups"]["chat-large"]["e2e_ms"]["p95"] > found["groups"]["chat-small"]["e2e_ms"]["p95"]


def test_a_range_without_requests_has_nulls_and_no_zeros(caller: Client, served: Filled) -> None:
    found = get(caller, "latency", **{"from": "2026-01-01", "to": "2026-01-02"})
    assert (found["requests"], found["e2e_ms"], found["ttft_ms"], found["stages"], found["unattributed_share"]) == (
        0,
        None,
        None,
        {},
        None,
    )
    usual = get(caller, "latency")
    assert usual["to_ns"] - usual["from_ns"] == 900 * 10**9


def test_series_are_steps_whose_requests_add_up(caller: Client, served: Filled) -> None:
    found = get(caller, "latency/series", **served.range, step_s=60)
    assert sum(point["requests"] for point in found["points"]) == len(served.rows)
    assert all(point["start_ns"] % (60 * 10**9) == 0 for point in found["points"])
