"""Which requests are good, bad, or not counted."""

import math
from dataclasses import fields
from typing import Any

import pytest

from controlplane.slo.core.sli import Availability, Cost, Histogram, Latency
from controlplane.telemetry.ledger.row import RATE_LIMITED, LedgerRow
from inference.contract.stages import STAGES

MS = 1_000_000


def row(**values: Any) -> LedgerRow:
    """An answered request of 900 ms: 200 ms queue, first token after 300 ms, ten gaps of 60 ms between tokens."""
    usual: dict[str, Any] = {
        **{field.name: None for field in fields(LedgerRow) if field.init},
        "status": "ok",
        "e2e_ns": 900 * MS,
        "stages": dict.fromkeys(STAGES, 0) | {"queue": 200 * MS, "model": 700 * MS},
        "ttft_ns": 300 * MS,
        "ttft_definition": "gateway",
        "decode_ns": 600 * MS,
        "output_tokens": 11,
        "prompt_tokens": 989,
        "cost_usd": 0.002,
    }
    return LedgerRow(**usual | values)


@pytest.mark.parametrize(
    ("measure", "measured_ms"), [("e2e", 900), ("ttft", 300), ("itl", 60), ("queue", 200), ("model", 700), ("cache", 0)]
)
def test_each_measure_is_good_up_to_its_threshold(measure: str, measured_ms: int) -> None:
    if measured_ms:
        assert Latency(measure, measured_ms).good(row()) is True
        assert Latency(measure, measured_ms - 0.001).good(row()) is False
    else:
        assert Latency(measure, 0.001).good(row()) is True


def test_a_ttft_of_another_definition_is_not_counted() -> None:
    assert Latency("ttft", 100).good(row(ttft_definition="vllm-arrival")) is None
    assert Latency("ttft", 100, "vllm-arrival").good(row(ttft_definition="vllm-arrival")) is False


def test_a_single_token_has_no_gap() -> None:
    assert Latency("itl", 1).good(row(output_tokens=1)) is None


def test_two_tokens_have_one_gap() -> None:
    assert Latency("itl", 600).good(row(output_tokens=2)) is True
    assert Latency("itl", 599).good(row(output_tokens=2)) is False


def test_an_unknown_number_of_tokens_has_no_gap() -> None:
    assert Latency("itl", 1).good(row(output_tokens=None)) is None


@pytest.mark.parametrize("status", ["error", "rejected"])
def test_a_failure_says_nothing_about_latency_or_cost(status: str) -> None:
    assert Latency("e2e", 1).good(row(status=status)) is None
    assert Cost(0.0001).good(row(status=status)) is None


def test_a_client_that_left_after_the_threshold_is_bad_and_before_it_is_not_counted() -> None:
    cancelled = row(status="cancelled", ttft_ns=None, ttft_definition="")
    assert Latency("ttft", 500).good(cancelled) is False
    assert Latency("ttft", 1_000).good(cancelled) is None
    assert Latency("e2e", 500).good(cancelled) is False


@pytest.mark.parametrize(("measure", "waited_ms"), [("ttft", 300), ("itl", 60), ("e2e", 900), ("queue", 200)])
def test_a_client_that_left_at_the_threshold_is_not_counted(measure: str, waited_ms: int) -> None:
    assert Latency(measure, waited_ms).good(row(status="cancelled")) is None
    assert Latency(measure, waited_ms - 0.001).good(row(status="cancelled")) is False


def test_a_client_that_left_without_a_gap_between_tokens_is_not_counted_for_gaps() -> None:
    assert Latency("itl", 1).good(row(status="cancelled", output_tokens=None, ttft_ns=None)) is None


def test_a_client_that_left_after_a_late_first_token_counts_by_that_token() -> None:
    cancelled = row(status="cancelled")
    assert Latency("ttft", 200).good(cancelled) is False
    assert Latency("ttft", 400).good(cancelled) is None


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({}, True),
        ({"status": "error"}, False),
        ({"status": "rejected", "error_type": "queue_full"}, False),
        ({"status": "rejected", "error_type": RATE_LIMITED}, None),
        ({"status": "cancelled"}, None),
    ],
)
def test_availability(values: dict[str, str], good: bool | None) -> None:
    assert Availability().good(row(**values)) is good


def test_cost_is_per_thousand_tokens_of_prompt_and_answer() -> None:
    assert Cost(0.002).good(row()) is True
    assert Cost(0.0019).good(row()) is False
    assert Cost(1).good(row(cost_usd=None)) is None


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens", "good"),
    [(1_000, None, True), (None, 1_000, True), (999, None, False), (None, 999, False), (1, None, False), (None, 1, False),
     (None, 0, None), (0, None, None), (None, None, None), (0, 0, None)],
)  # fmt: skip
def test_unknown_tokens_cost_nothing_and_without_any_there_is_no_cost_of_one(
    prompt_tokens: int | None, output_tokens: int | None, good: bool | None
) -> None:
    assert Cost(0.002).good(row(prompt_tokens=prompt_tokens, output_tokens=output_tokens)) is good


def test_an_unknown_measure_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="ttft, itl, e2e, network, gateway"):
        Latency("p95", 100)


@pytest.mark.parametrize("threshold", [0, -1, math.nan])
def test_a_threshold_must_be_above_zero(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"threshold_ms=.* is not above 0"):
        Latency("e2e", threshold)
    with pytest.raises(ValueError, match=r"usd_per_1k_tokens=.* is not above 0"):
        Cost(threshold)


@pytest.mark.parametrize("metric", ["", "vllm:ttft_bucket", "vllm:ttft_count", "vllm:ttft_sum"])
def test_a_histogram_is_named_without_its_parts(metric: str) -> None:
    with pytest.raises(ValueError, match="metric="):
        Histogram(metric, 1)


@pytest.mark.parametrize("threshold", [math.inf, -math.inf, math.nan])
def test_a_histograms_threshold_is_finite(threshold: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        Histogram("vllm:ttft", threshold)


def test_a_histogram_counts_no_request() -> None:
    assert Histogram("vllm:ttft", 0).good(row()) is None
