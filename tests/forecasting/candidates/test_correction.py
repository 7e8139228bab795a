"""Corrections: the weights of an autoregression, and what remains of an error."""

import numpy as np
import pytest

from forecasting.calendar import HOUR_S
from forecasting.candidates.correction import LAGS, corrected, fit, kept_share
from forecasting.series import F64, Series


def errors_of(weight: float) -> F64:
    noise = np.random.default_rng(5).normal(0, 1, 4000)
    errors = np.zeros(4000)
    for step in range(1, 4000):
        errors[step] = weight * errors[step - 1] + noise[step]
    return errors


def corrected_at(values: F64, usual: F64, origin: int, leads: range) -> F64:
    """By the hour, from one origin."""
    steps = np.array(leads)
    return corrected(Series(0, HOUR_S, values), usual, usual[None, origin + steps - 1], np.array([origin]), steps)[0]


def remains(errors: F64, leads: list[int]) -> F64:
    origins, level = np.array([len(errors)]), 1000.0
    usual, base = np.full(len(errors), level), np.full((1, len(leads)), level)
    return corrected(Series(0, HOUR_S, usual + errors), usual, base, origins, np.array(leads))[0] - level


def test_the_weights_of_an_autoregression_are_fitted() -> None:
    assert fit(errors_of(0.8)) == pytest.approx([0.8, 0, 0], abs=0.05)


def test_an_error_fades_as_it_did_in_the_past() -> None:
    errors = errors_of(0.8)
    errors[-LAGS:] = 4.0
    expected = remains(errors, [1, 5, 50])
    assert expected == pytest.approx([3.2, 4 * 0.8**5, 0], abs=0.3)


def test_errors_that_grow_are_not_continued_without_bound() -> None:
    growing = 1.05 ** np.arange(200)
    assert np.abs(remains(growing, [1, 500])).max() <= 1.1 * growing[-1]


@pytest.mark.parametrize("errors", [np.zeros(100), np.full(100, np.nan), np.ones(3), np.zeros(0)])
def test_without_errors_nothing_is_corrected(errors: F64) -> None:
    assert remains(errors, [1, 2]) == pytest.approx([0, 0])


def test_demand_that_has_doubled_is_twice_the_usual_at_other_hours_too() -> None:
    """What is missing at the end of the night is not what is missing in the morning."""
    hours = np.arange(14 * 24)
    usual = 110 - 100 * np.cos(2 * np.pi * hours / 24)
    level = np.where(hours < 7 * 24, 1.0, 2.0)
    values = usual * level
    origin = 13 * 24 + 5  # before the rise
    expected = corrected_at(values, usual, origin, range(1, 5))
    assert expected == pytest.approx(2 * usual[origin : origin + 4], rel=0.06)


def test_a_spike_in_an_empty_night_does_not_multiply_the_day() -> None:
    hours = np.arange(14 * 24)
    usual = np.where(hours % 24 < 8, 0.0, 100.0)
    values = usual.copy()
    values[[5 * 24 + 1, 9 * 24 + 3]] = 50.0
    origin = 13 * 24 + 4
    values[origin - 3 : origin] = 50.0
    expected = corrected_at(values, usual, origin, range(1, 13))
    assert (expected <= usual[origin : origin + 12] + 150).all()
    assert corrected_at(2 * values, 2 * usual, origin, range(1, 13)) == pytest.approx(2 * expected)


def test_a_mean_error_that_stayed_in_the_past_is_kept() -> None:
    """So demand drifts away from its past for weeks."""
    above = np.arange(28 * 24) >= 24
    values, lead = np.where(above, 130.0, 100.0), 7 * 24
    usual = np.full(len(values) + lead, 100.0)
    assert corrected_at(values, usual, len(values), range(lead, lead + 1)) == pytest.approx([130], abs=1)


@pytest.mark.parametrize(("later", "expected"), [(0.0, 0.0), (-2.0, 0.0), (1.0, 0.5), (2.0, 1.0), (3.0, 1.0)])
def test_of_a_mean_error_as_much_is_kept_as_was_left_of_it_in_the_past(later: float, expected: float) -> None:
    means, errors = np.zeros(40), np.zeros(40)
    means[5:15], errors[15:25] = 2.0, later
    errors[20] = np.nan
    assert kept_share(means, errors, lead=10) == pytest.approx(expected)


def test_a_history_shorter_than_the_lead_keeps_nothing() -> None:
    assert kept_share(np.ones(5), np.ones(5), lead=10) == 0
