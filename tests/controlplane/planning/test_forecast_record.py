"""The record of forecasts: points of the database against what came."""

import numpy as np
import pytest

from controlplane.planning.demand import Came
from controlplane.planning.forecast_record import ForecastThen, forecast_then
from controlplane.planning.models import StoredForecast
from forecasting.series import Series
from tests.support.planning.stored import store_forecasts, store_record

NOW_S = 1_795_000_000 // 900 * 900


@pytest.fixture
def row(db: None) -> StoredForecast:
    row = store_forecasts(NOW_S)[0]
    store_record(row, days=2)
    return row


def then(row: StoredForecast, values: list[float], step_s: int = 900) -> ForecastThen:
    start_s = NOW_S // step_s * step_s - len(values) * step_s
    came = Series(start_s, step_s, np.array(values))
    return forecast_then(row, Came(came, came, came, came))


def test_points_meet_the_steps_that_they_were_of(row: StoredForecast) -> None:
    result = then(row, [10.0, 20.0, 18.0, 10.0])
    assert result.median.values.tolist() == [10.0] * 4
    assert result.p90.values.tolist() == [18.0] * 4
    assert (result.steps, result.p90_coverage) == (4, 0.75)
    assert result.wape == pytest.approx(18 / 58)


def test_a_gap_counts_for_nothing(row: StoredForecast) -> None:
    result = then(row, [10.0, float("nan"), 12.0])
    assert result.steps == 2
    assert result.wape == pytest.approx(2 / 22)


def test_longer_steps_have_the_means_of_their_points(row: StoredForecast) -> None:
    assert then(row, [9.0, 11.0], step_s=3600).median.values.tolist() == [10.0, 10.0]


def test_other_series_and_other_horizons_have_records_of_their_own(row: StoredForecast) -> None:
    other = StoredForecast.objects.exclude(pk=row.pk).filter(measure=row.measure, model=row.model).first()
    assert other is not None
    result = then(other, [10.0, 10.0])
    assert (result.steps, result.wape, result.p90_coverage) == (0, None, None)


def test_nothing_that_came_has_no_relative_error(row: StoredForecast) -> None:
    assert then(row, [0.0, 0.0]).wape is None
    assert then(row, []).wape is None
