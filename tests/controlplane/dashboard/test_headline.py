"""The sentence that says which stage makes the slow requests slow."""

import pytest

from controlplane.dashboard.core.headline import headline
from controlplane.telemetry.core.query_types import Group, LatencyReport, Quantiles, StageFigures, StageShare


def stage(share: float, above: float, mean_ms: float = 1.0) -> StageFigures:
    return StageFigures(1, 2, 3, mean_ms, share, above)


def report(p50: float = 100, p95: float = 1900, requests: int = 500, **stages: StageFigures) -> LatencyReport:
    return LatencyReport(requests, 0, Quantiles(p50, p95, p95 * 1.5), {}, {}, stages, 1)


def group(requests: int, queue_ms: float) -> Group:
    return Group(requests, 0, None, {"queue": StageShare(queue_ms, 0, 0)})


SLOW = report(queue=stage(0.3, 0.68), model=stage(0.6, 0.30), cache=stage(0.1, 0.02))


def test_it_names_the_stage_with_most_of_the_time_above_the_median() -> None:
    found = headline(SLOW, {}, "p95")
    assert found is not None
    assert (found.cause, found.share, found.value_ms, found.steady) == ("queue", 0.68, 1900, False)
    assert (found.second, found.second_share) == ("model", 0.30)


def test_no_stage_has_more_than_all_of_the_time_above_the_median() -> None:
    """Slow requests whose answers are shorter spend less in the model: 102 % of the excess would be queue."""
    found = headline(report(queue=stage(0.5, 1.02), model=stage(0.4, -0.12), cache=stage(0.1, 0.1)), {}, "p95")
    assert found is not None
    assert (found.cause, found.share) == ("queue", pytest.approx(1.02 / 1.12))


def test_it_names_the_model_that_spends_most_of_that_stage() -> None:
    by_model = {"large": group(requests=100, queue_ms=900), "small": group(requests=400, queue_ms=3)}
    found = headline(SLOW, by_model, "p95")
    assert found is not None
    assert found.model == "large"


def test_it_names_no_model_where_two_share_the_stage() -> None:
    even = {"large": group(requests=100, queue_ms=10), "small": group(requests=100, queue_ms=9)}
    found = headline(SLOW, even, "p95")
    assert found is not None
    assert found.model == ""


def test_where_p95_is_close_to_the_median_it_speaks_of_all_time() -> None:
    found = headline(report(p50=100, p95=110, queue=stage(0.1, 0.9), model=stage(0.9, 0.1)), {}, "p95")
    assert found is not None
    assert (found.steady, found.cause, found.share) == (True, "model", 0.9)


def test_time_that_no_span_explains_is_named_too() -> None:
    found = headline(report(unattributed=stage(0.8, 0.9), model=stage(0.2, 0.1)), {}, "p99")
    assert found is not None
    assert found.cause == "unattributed"


def test_it_says_when_there_are_too_few_requests() -> None:
    few = headline(report(requests=7, queue=stage(1, 1)), {}, "p95")
    assert few is not None
    assert few.few


def test_without_requests_there_is_no_sentence() -> None:
    assert headline(LatencyReport(0, 0, None, {}, {}, {}, None), {}, "p95") is None


def test_where_nothing_exceeds_the_median_no_stage_is_blamed() -> None:
    found = headline(report(queue=stage(0.5, 0.0), model=stage(0.5, -0.1)), {}, "p95")
    assert found is not None
    assert found.cause == ""
