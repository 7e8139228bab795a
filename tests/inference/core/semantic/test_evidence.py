"""Evidence: what certifies a threshold, what breaks the claim, and how often a certificate errs."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.semantic.evidence import ALPHA, MAX_LABELS, THRESHOLDS, Evidence, Label, choose, sample_rate
from tests.support.soak import sized

DELTA = 0.05


def shown(evidence: Evidence, labels: int, *, wrong: int = 0, similarity: float = 0.995) -> Evidence:
    for number in range(labels):
        evidence.add(Label(similarity, number < wrong))
    return evidence


def certified(delta: float = DELTA) -> Evidence:
    evidence = Evidence(delta)
    return shown(evidence, evidence.labels_wanted)


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
def test_right_labels_certify_after_as_many_as_are_wanted(delta: float) -> None:
    evidence = shown(Evidence(delta), Evidence(delta).labels_wanted * 4 // 5)
    assert evidence.threshold is None
    assert certified(delta).threshold == THRESHOLDS[0]


def test_labels_below_a_threshold_say_nothing_of_it_and_do_not_break_it() -> None:
    evidence = shown(Evidence(DELTA), 400, wrong=400, similarity=0.88)
    shown(evidence, evidence.labels_wanted)
    assert evidence.threshold == 0.9
    assert not any(evidence.add(Label(0.88, True)) for _ in range(50))
    assert evidence.threshold == 0.9


@given(st.lists(st.booleans(), max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_labels_does_not_matter_until_something_is_certified(
    labels: list[bool], order: random.Random
) -> None:
    first, second = Evidence(0.01), Evidence(0.01)
    mixed = order.sample(labels, len(labels))
    for wrong, other in zip(labels, mixed, strict=True):
        first.add(Label(0.94, wrong))
        second.add(Label(0.94, other))
    assert [first.capital(number) for number in range(len(THRESHOLDS))] == [
        second.capital(number) for number in range(len(THRESHOLDS))
    ]


@given(st.lists(st.booleans(), max_size=40))
def test_capital_is_the_mean_of_products_of_bets(labels: list[bool]) -> None:
    evidence = Evidence(DELTA)
    for wrong in labels:
        evidence.add(Label(1.0, wrong))
    bets = [(share / (1 - DELTA), weight) for share, weight in ((0.95, 0.5), (0.7, 0.2), (0.4, 0.15), (0.15, 0.15))]
    capital = sum(weight * math.prod(1 + bet * (DELTA - wrong) for wrong in labels) for bet, weight in bets)
    assert evidence.capital(0) == pytest.approx(math.log(capital))


def test_where_as_many_are_wrong_as_the_bound_says_a_certificate_is_rare() -> None:
    draw, runs = random.Random(7), sized(40, soak=400)
    wrongly = 0
    for _ in range(runs):
        evidence = Evidence(DELTA)
        for _ in range(600):
            evidence.add(Label(draw.uniform(0.7, 1.0), draw.random() < DELTA))
            if evidence.threshold is not None:
                wrongly += 1
                break
    assert wrongly <= ALPHA * runs


def test_wrong_labels_in_a_row_break_the_claim_and_the_next_certificate_needs_more() -> None:
    evidence, first = shown(certified(), 200), Evidence(DELTA).labels_wanted
    assert [evidence.add(Label(0.995, True)) for _ in range(2)] == [False, True]
    assert (evidence.threshold, evidence.labels, evidence.changes) == (None, 0, 1)
    assert evidence.labels_wanted > first
    assert shown(evidence, evidence.labels_wanted).threshold == THRESHOLDS[0]


def test_a_wrong_label_among_right_ones_breaks_nothing() -> None:
    evidence = shown(certified(), 200)
    for _ in range(3):
        assert not evidence.add(Label(0.995, True))
        shown(evidence, 200)
    assert evidence.threshold == THRESHOLDS[0]


def test_a_lower_threshold_that_is_on_its_way_is_waited_for() -> None:
    evidence = Evidence(DELTA)
    shown(evidence, 1, wrong=1, similarity=0.86)
    shown(evidence, evidence.labels_wanted)
    assert evidence.threshold is None
    shown(evidence, evidence.labels_wanted)
    assert evidence.threshold == THRESHOLDS[0]


def test_what_was_wrong_long_ago_is_not_held_against_a_route_for_ever() -> None:
    evidence = shown(Evidence(DELTA), MAX_LABELS, wrong=MAX_LABELS // 2)
    assert (evidence.labels, evidence.changes) == (0, 0)
    assert shown(evidence, evidence.labels_wanted).threshold == THRESHOLDS[0]


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0, -0.1, math.nan])
def test_a_share_that_bounds_nothing_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="share of wrong answers"):
        Evidence(delta)


@pytest.mark.parametrize(
    ("similarity", "threshold", "draw", "expected"),
    [
        (1.0, None, 0.9, "label"),
        (0.95, 0.9, 0.9, "serve"),
        (0.95, 0.9, 0.01, "label"),
        (0.85, 0.9, 0.01, "label"),  # so that labels are of all candidates alike
        (0.85, 0.9, 0.9, "generate"),
    ],
)
def test_what_becomes_of_a_candidate(similarity: float, threshold: float | None, draw: float, expected: str) -> None:
    assert choose(similarity, threshold, 0.05, draw) == expected


def test_fewer_are_labelled_as_more_are_served_and_never_none() -> None:
    rates = [sample_rate(served, 0.01) for served in (0, 1, 100, 1_000, 5_000, 50_000, 10**9)]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (0.5, 0.05)
