"""What the pages of planners answer to a bad question, and to one about nothing."""

from typing import Any

import pytest
from django.test import Client

from tests.support.web.html import shown


@pytest.mark.parametrize(
    ("path", "parameters", "words"),
    [
        ("/planning", {"measure": "love"}, "measure="),
        ("/planning", {"horizon": "9h"}, "horizon="),
        ("/planning", {"from": "yesterday"}, "from="),
        ("/planning/plan", {"hours": "5"}, "is not one of the values"),
        ("/planning/plan", {"q": "p42"}, "is not one of the values"),
        ("/planning/plan", {"pool": "chat-lage-eu"}, "is no pool of the plan"),
        ("/planning/plan", {"region": "moon"}, "is no region of the plan"),
        ("/planning/what-if", {"scenario": "peek=2"}, "Use one of peak"),
        ("/planning/what-if", {"scenario": "peak=much"}, "Give a number"),
        ("/planning/what-if", {"scenario": "peak=-1"}, "0 or more"),
        ("/planning/what-if", {"peak": "much"}, "is not a number"),
        ("/planning/what-if", {"launch_model": "chat-large", "launch_rps": "50"}, "YYYY-MM-DD"),
        ("/planning/what-if", {"scenario": [f"peak={n}" for n in range(2, 11)]}, "ompare at most"),
        ("/planning/worksheet", {"quarter": "2027-Q5"}, "is not a quarter"),
        ("/planning/worksheet", {"quarter": "2020-Q1"}, "is over"),
        ("/planning/worksheet", {"growth": "much"}, "is not a number from -50 to 50"),
        ("/planning/worksheet", {"growth": "nan"}, "is not a number from -50 to 50"),
    ],
)
def test_a_bad_question_says_what_to_write(
    reader: Client, planned: None, served: object, path: str, parameters: dict[str, Any], words: str
) -> None:
    status, text = shown(path, reader, **parameters)
    assert status == 400
    assert words in text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/planning", ("There is no forecast yet.", "demo_history --weeks 5")),
        ("/planning/plan", ("There is no plan.", "add pools to the fleet", "demo_history")),
        ("/planning/what-if", ("There is nothing to compare.",)),
        ("/planning/worksheet", ("There is no plan for",)),
    ],
)
def test_without_forecasts_and_pools_it_is_said_so_with_what_to_do(
    reader: Client, db: None, served: object, path: str, words: tuple[str, ...]
) -> None:
    status, text = shown(path, reader)
    assert status == 200
    assert [each for each in words if each not in text] == []
