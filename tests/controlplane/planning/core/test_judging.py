"""Judging the requests of a benchmark's step."""

import pytest

from controlplane.planning.core.judging import Criterion, StepFigures, alone_fault, figures, is_lost
from forecasting.capacity.benchmark import StepLength
from inference.contract.benchmark_messages import Sample

TTFT, E2E, ITL = Criterion("ttft", 0.3, 0.9), Criterion("e2e", 1.0, 0.9, "whole"), Criterion("itl", 0.05, 0.9)
LENGTH = StepLength(warm_in=2, judged=20, quick=False)


def answered(number: int, ttft_s: float = 0.1, e2e_s: float = 0.5, tokens: int = 11) -> Sample:
    at_s = number / 10
    return Sample(number, at_s, at_s + 0.05, at_s + ttft_s, at_s + e2e_s, 100, tokens)


def judged(samples: list[Sample], *criteria: Criterion, now_s: float = 9.0, cut: bool = False) -> StepFigures:
    return figures(10.0, samples, criteria, LENGTH, now_s, cut)


@pytest.mark.parametrize(
    ("criterion", "sample", "good"),
    [
        (TTFT, answered(0, ttft_s=0.3 - 1e-9), True),
        (TTFT, answered(0, ttft_s=0.31), False),
        (TTFT, Sample(0, 0.0), None),
        (TTFT, Sample(0, -0.5), False),
        (TTFT, Sample(0, 0.0, 0.1, 0.2), True),
        (TTFT, Sample(0, 0.0, 0.0, None, 0.1, busy="full"), False),
        (E2E, Sample(0, 0.0, 0.1, 0.2), None),
        (E2E, answered(0, e2e_s=1.1), False),
        (ITL, answered(0, 0.1, 0.6), True),
        (ITL, answered(0, 0.1, 0.7), False),
        (ITL, answered(0, 0.1, 0.7, tokens=1), None),
    ],
)
def test_a_request_is_good_by_the_time_since_its_arrival(
    criterion: Criterion, sample: Sample, good: bool | None
) -> None:
    assert criterion.good(sample, 0.2) is good


def test_the_first_requests_warm_the_replica_up_and_are_not_judged() -> None:
    step = judged([answered(0, e2e_s=5.0), answered(1, e2e_s=5.0), *(answered(n) for n in range(2, 22))], E2E)
    assert (step.sent, step.judged, step.good, step.kept, step.share) == (22, 20, 20, True, 1.0)
    assert (step.p95_ttft_s, step.p95_e2e_s) == (pytest.approx(0.1), pytest.approx(0.5))
    assert (step.input_tokens, step.output_tokens) == (100, 11)
    assert step.measured_rps == pytest.approx(10.0)


def test_the_criterion_that_is_kept_least_decides() -> None:
    samples = [answered(n, ttft_s=0.4 if n < 6 else 0.1) for n in range(22)]
    step = judged(samples, E2E, TTFT)
    assert (step.judged, step.good, step.kept) == (20, 16, False)


def test_what_was_not_answered_by_the_end_is_bad() -> None:
    samples = [*(answered(n) for n in range(19)), *(Sample(n, 1.9, 2.0, 2.1) for n in range(19, 22))]
    step = judged(samples, E2E, now_s=2.5)
    assert (step.judged, step.good, step.kept) == (20, 17, False)


def test_a_step_is_lost_once_the_rest_cannot_make_up_for_it_and_not_before() -> None:
    bad = [answered(n, e2e_s=2.0) for n in range(2, 4)]
    assert not is_lost(bad, [E2E], LENGTH, 4.0)
    assert is_lost([*bad, Sample(4, 1.0)], [E2E], LENGTH, 2.1)
    assert not is_lost([answered(n, e2e_s=2.0) for n in range(2)], [E2E], LENGTH, 4.0)
    step = judged([*bad, Sample(4, 1.0), Sample(5, 2.0)], E2E, now_s=2.1, cut=True)
    assert (step.judged, step.good, step.kept) == (3, 0, False)


def test_the_batch_is_the_mean_number_of_requests_at_the_replica() -> None:
    step = judged([answered(n) for n in range(22)], E2E)
    assert step.batch == pytest.approx(10 * 0.45, rel=0.06)


def test_requests_that_are_bad_even_alone_make_a_benchmark_useless() -> None:
    slow = [answered(n, e2e_s=2.0) for n in range(3)]
    assert "E2E at most 1000 ms for 90 % (whole)" in alone_fault(slow, [TTFT, E2E], 9.0)
    assert alone_fault([*slow[:2], answered(3)], [E2E], 9.0) == ""
