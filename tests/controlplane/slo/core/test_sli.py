"""What indicators refuse."""

import math

import pytest

from controlplane.slo.core.sli import Cost, Histogram, Latency


def test_an_unknown_measure_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="ttft, itl, e2e, retrieval, rerank, network, gateway"):
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
