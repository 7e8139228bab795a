"""Forecasts: what they refuse, and quantiles between the stored ones."""

import numpy as np
import pytest

from forecasting.forecast import LEVELS, Forecast, ForecastError


def forecast(**rows: list[float]) -> Forecast:
    quantiles = {level: np.array(rows.get(f"p{round(level * 100)}", [100 * level] * 2)) for level in LEVELS}
    return Forecast(0, 60, quantiles, "last_value", None, "It is a test.")


def test_a_quantile_between_two_is_interpolated_and_beyond_them_the_outermost() -> None:
    assert forecast().at(0.7).tolist() == pytest.approx([70, 70])
    assert forecast().at(0.9).tolist() == pytest.approx([90, 90])
    assert forecast().at(0.999).tolist() == pytest.approx([99, 99])
    assert forecast().at(0.01).tolist() == pytest.approx([5, 5])
    assert forecast().end_s == 120


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"p50": [float("nan"), 50]}, "infinite or NaN"),
        ({"p5": [-1.0, 5]}, "below 0"),
        ({"p90": [40.0, 90]}, "quantiles cross"),
        ({"p99": [99.0]}, "differ in length"),
    ],
)
def test_quantiles_that_cannot_be_are_refused(rows: dict[str, list[float]], message: str) -> None:
    with pytest.raises(ForecastError, match=message):
        forecast(**rows)


def test_every_level_is_needed() -> None:
    with pytest.raises(ForecastError, match=r"lack the levels \[0.05, 0.1, 0.9, 0.95, 0.99\]"):
        Forecast(0, 60, {0.5: np.zeros(1)}, "last_value", None, "It is a test.")
