"""The quarter's worksheet as a page."""

import time

import pytest
from django.test import Client

from controlplane.planning.quarter import quarters_from
from tests.support.planning.fleet import plan_fleet
from tests.support.planning.stored import store_forecasts


def get(client: Client, **parameters: str) -> tuple[int, str]:
    response = client.get("/planning/worksheet", parameters)
    return response.status_code, " ".join(response.content.decode().split())


@pytest.fixture
def planned(db: None) -> None:
    plan_fleet()
    store_forecasts()


def test_each_region_and_month_of_the_next_quarter_has_a_row(reader: Client, planned: None, served: object) -> None:
    status, text = get(reader)
    quarter = quarters_from(int(time.time()), 2)[1]
    first = f"{quarter.year}-{quarter.number * 3 - 2:02d}"
    assert status == 200
    assert f"{quarter.name} takes" in text
    assert text.count(f"<td>{first}</td>") == 2  # eu and us
    assert "all regions" in text and 'id="figure"' in text
    assert "Forecasts reach until" in text  # a week, not a quarter


def test_the_present_quarter_says_which_part_it_covers(reader: Client, planned: None, served: object) -> None:
    quarter = quarters_from(int(time.time()), 1)[0]
    assert "the quarter has begun" in get(reader, quarter=quarter.name)[1]


def test_growth_costs(reader: Client, planned: None, served: object) -> None:
    assert "growing 5 % each week" in get(reader, growth="5")[1]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"quarter": "2027-Q5"}, "is not a quarter"),
        ({"quarter": "2020-Q1"}, "is over"),
        ({"growth": "much"}, "is not a number from -50 to 50"),
        ({"growth": "nan"}, "is not a number from -50 to 50"),
    ],
)
def test_a_bad_question_says_what_to_write(
    reader: Client, planned: None, served: object, parameters: dict[str, str], words: str
) -> None:
    status, text = get(reader, **parameters)
    assert status == 400
    assert words in text


def test_without_pools_it_is_said_so(reader: Client, db: None, served: object) -> None:
    status, text = get(reader)
    assert status == 200
    assert "There is no plan for" in text
