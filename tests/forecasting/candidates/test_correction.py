"""Corrections: the weights of an autoregression, and what remains of an error."""

import numpy as np
import pytest

from forecasting.candidates.correction import LAGS, corrected, fit
from forecasting.series import F64


def errors_of(weight: float) -> F64:
    noise = np.random.default_rng(5).normal(0, 1, 4000)
    errors = np.zeros(4000)
    for step in range(1, 4000):
        errors[step] = weight * errors[step - 1] + noise[step]
    return errors


def remains(errors: F64, leads: list[int]) -> F64:
    origins, level = np.array([len(errors)]), 1000.0
    usual, base = np.full(len(errors), level), np.full((1, len(leads)), level)
    return corrected(usual + errors, usual, base, origins, np.array(leads))[0] - level


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
    expected = corrected(values, usual, usual[None, origin : origin + 4], np.array([origin]), np.arange(1, 5))[0]
    assert expected == pytest.approx(2 * usual[origin : origin + 4], rel=0.06)


def test_a_spike_in_an_empty_night_does_not_multiply_the_day() -> None:
    hours = np.arange(14 * 24)
    usual = np.where(hours % 24 < 8, 0.0, 100.0)
    values = usual.copy()
    values[[5 * 24 + 1, 9 * 24 + 3]] = 50.0
    origin = 13 * 24 + 4
    values[origin - 3 : origin] = 50.0
    expected = corrected(values, usual, usual[None, origin : origin + 12], np.array([origin]), np.arange(1, 13))[0]
    assert (expected <= usual[origin : origin + 12] + 150).all()
    assert corrected(
        2 * values, 2 * usual, 2 * usual[None, origin : origin + 12], np.array([origin]), np.arange(1, 13)
    )[0] == pytest.approx(2 * expected)
