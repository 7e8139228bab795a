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


@pytest.mark.parametrize(
    ("others", "model"), [(group(requests=400, queue_ms=3), "large"), (group(requests=100, queue_ms=890), "")]
)
def test_it_names_the_model_that_spends_most_of_that_stage_where_no_other_does_too(others: Group, model: str) -> None:
    found = headline(SLOW, {"large": group(requests=100, queue_ms=900), "small": others}, "p95")
    assert found is not None
    assert found.model == model


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        (report(p95=110, queue=stage(0.1, 0.9), model=stage(0.9, 0.1)), (True, "model", 0.9)),  # close to the median
        (report(unattributed=stage(0.8, 0.9), model=stage(0.2, 0.1)), (False, "unattributed", 0.9)),
        (report(queue=stage(0.5, 0.0), model=stage(0.5, -0.1)), (False, "", None)),  # nothing exceeds the median
    ],
)
def test_it_speaks_of_all_time_of_unexplained_time_or_blames_no_stage(
    figures: LatencyReport, found: tuple[bool, str, float | None]
) -> None:
    said = headline(figures, {}, "p95")
    assert said is not None
    assert (said.steady, said.cause) == found[:2]
    assert found[2] is None or said.share == found[2]


def test_it_says_when_there_are_too_few_requests_and_nothing_of_none() -> None:
    few = headline(report(requests=7, queue=stage(1, 1)), {}, "p95")
    assert few is not None
    assert few.few
    assert headline(LatencyReport(0, 0, None, {}, {}, {}, None), {}, "p95") is None
