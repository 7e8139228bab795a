"""Bands: a P90 is above what comes nine times in ten, and no quantile crosses another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from forecasting.forecast import LEVELS
from forecasting.intervals import Band, calibrated, pinball
from forecasting.series import F64

P10, P90 = LEVELS.index(0.1), LEVELS.index(0.9)
COUNT = 800


def covered(errors: F64, later: F64, adapted: bool = True) -> F64:
    """The share of later errors below each quantile that the earlier ones call for, at lead 1."""
    forecast = 1000.0
    expected, leads = np.full((len(errors), 1), forecast), np.array([1])
    band = calibrated(expected, expected + errors[:, None], np.arange(len(errors)), leads, adapted)
    bounds = band.around(np.full((1, 1), forecast), leads)[:, 0]
    return np.asarray((forecast + later <= bounds).mean(axis=1))


def test_a_quantile_is_exceeded_as_often_as_it_says() -> None:
    shares = []
    for seed in range(20):
        errors = np.random.default_rng(seed).standard_t(3, (2, COUNT)) * 40
        shares.append(covered(errors[0], errors[1]))
    for level in (0.05, 0.1, 0.9, 0.95):
        assert np.mean(shares, axis=0)[LEVELS.index(level)] == pytest.approx(level, abs=0.015)


def test_after_errors_grew_the_band_covers_the_new_ones() -> None:
    plain, adapted = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        errors = random.normal(0, np.where(np.arange(COUNT) < COUNT * 0.7, 10.0, 30.0))
        later = random.normal(0, 30.0, COUNT)
        plain.append(covered(errors, later, adapted=False)[P90])
        adapted.append(covered(errors, later)[P90])
    assert np.mean(plain) < 0.88
    assert np.mean(adapted) == pytest.approx(0.9, abs=0.04)


def test_errors_that_grow_with_demand_make_a_band_that_does() -> None:
    random = np.random.default_rng(2)
    expected = random.uniform(10, 1000, (COUNT, 1))
    actual = expected * (1 + random.normal(0, 0.2, (COUNT, 1)))
    band = calibrated(expected, actual, np.arange(COUNT), np.array([1]))
    low, high = band.around(np.array([[10.0], [1000.0]]), np.array([1]))[P90, :, 0]
    assert band.relative
    assert high == pytest.approx(1256, rel=0.1)
    assert low < 40


def test_few_errors_make_a_guess_and_overlapping_ones_a_wide_band() -> None:
    random = np.random.default_rng(3)
    expected, actual = np.full((200, 1), 100.0), 100 + random.normal(0, 10, (200, 1))
    assert not calibrated(expected[:5], actual[:5], np.arange(5), np.array([1])).measured
    apart = calibrated(expected, actual, np.arange(200), np.array([1])).around(expected[:1], np.array([1]))
    overlapping = calibrated(expected, actual, np.arange(200), np.array([60])).around(expected[:1], np.array([60]))
    assert overlapping[P90, 0, 0] > apart[P90, 0, 0] + 2


def test_levels_beyond_the_outermost_of_few_independent_errors_hold_too() -> None:
    """A day ahead two weeks hold a dozen errors that do not overlap, and the largest of these is no P99."""
    lead, expected, held = 25, np.full((300, 1), 1000.0), []
    for seed in range(400):
        errors = np.random.default_rng(seed).normal(0, 40, 13)
        actual = expected + np.repeat(errors[:12], lead)[:, None]
        band = calibrated(expected, actual, np.arange(300), np.array([lead]), adapted=True)
        held.append(1000 + errors[12] <= band.around(expected[:1], np.array([lead]))[:, 0, 0])
    for level in (0.05, 0.95, 0.99):
        assert np.mean(held, axis=0)[LEVELS.index(level)] == pytest.approx(level, abs=0.03)


def test_beyond_the_last_measured_lead_a_band_grows_with_the_root_of_the_lead() -> None:
    band = Band((1, 4), ((-2, -1, 0, 1, 2, 3), (-4, -2, 0, 2, 4, 6)), relative=False, floor=0.0, measured=True)
    table = band.around(np.full((1, 4), 100.0), np.array([1, 2, 4, 16]))
    assert table[P90, 0].tolist() == pytest.approx([101, 101 + 1 / 3, 102, 104])
    assert table[P10, 0].tolist() == pytest.approx([99, 99 - 1 / 3, 98, 96])


@settings(max_examples=50, deadline=None)
@given(
    npst.arrays(np.float64, (60, 2), elements=st.floats(0, 1e6)),
    npst.arrays(np.float64, (60, 2), elements=st.one_of(st.floats(0, 1e6), st.just(float("nan")))),
    st.booleans(),
)
def test_quantiles_never_cross_and_are_never_below_0(expected: F64, actual: F64, adapted: bool) -> None:
    band = calibrated(expected, actual, np.arange(0, 120, 2), np.array([1, 5]), adapted)
    table = band.around(expected, np.array([1, 9]))
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert (np.diff(table, axis=0) >= 0).all()
    np.testing.assert_array_equal(table[LEVELS.index(0.5)], expected)


def test_the_pinball_loss_of_a_quantile_weighs_both_sides_by_its_level() -> None:
    quantiles = np.array([10.0, 10, 10, 10, 10, 10])[:, None, None]
    assert pinball(np.array([[20.0]]), quantiles)[0, 0] == pytest.approx(10 * np.mean(LEVELS))
    assert pinball(np.array([[0.0]]), quantiles)[0, 0] == pytest.approx(10 * (1 - np.mean(LEVELS)))
