"""The quarter's worksheet as a page."""

import time
from functools import partial

from django.test import Client

from controlplane.planning.quarter import quarters_from
from tests.support.planning.fleet import plan_fleet
from tests.support.web.html import shown

get = partial(shown, "/planning/worksheet")


def test_each_region_and_month_has_a_row_and_a_quarter_that_has_begun_says_so(
    reader: Client, planned: None, served: object
) -> None:
    status, text = get(reader)
    quarter = quarters_from(int(time.time()), 2)[1]
    first = f"{quarter.year}-{quarter.number * 3 - 2:02d}"
    assert status == 200
    assert f"{quarter.name} takes" in text
    assert text.count(f"<td>{first}</td>") == 2  # eu and us
    assert "all regions" in text and 'id="figure"' in text
    assert "Forecasts reach until" in text  # a week, not a quarter
    present = quarters_from(int(time.time()), 1)[0]
    assert "the quarter has begun" in get(reader, quarter=present.name)[1]
    assert "growing 5 % each week" in get(reader, growth="5")[1]


def test_a_demand_that_nobody_has_forecast_is_said_to_be_unknown(reader: Client, served: object, db: None) -> None:
    plan_fleet()
    sheet, scenarios = get(reader)[1], shown("/planning/what-if", reader)[1]
    assert "is not known:</strong> there is no" in sheet and "The warm floor takes" in " ".join(sheet.split())
    assert "0 requests/s" not in sheet + scenarios and "✓ never" not in scenarios
    assert "Not comparable:" in scenarios
