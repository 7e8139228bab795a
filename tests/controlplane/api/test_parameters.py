"""What the document does not name is refused by every operation: parameters that it does not have, and what is no list given twice."""

import pytest
from django.test import Client

from tests.support.web.document import api_document

READ = {path: operations["get"] for path, operations in api_document()["paths"].items() if "get" in operations}


def test_a_misspelt_parameter_is_refused(caller: Client) -> None:
    assert len(READ) > 50
    for path, operation in READ.items():
        place = path.replace("{trace_id}", "0" * 32).replace("{key}", "0" * 16)
        place = place.replace("{number}", "1").replace("{slug}", "none")
        known = [one["name"] for one in operation["parameters"] if one["in"] == "query" and one["required"]]
        answer = caller.get(place, {"modell": "x", **dict.fromkeys(known, "x")})
        assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json"), path
        assert answer.json()["field"] == "modell", path


@pytest.mark.parametrize(("path", "name"), [("objectives", "model"), ("silences", "limit"), ("latency", "from")])
def test_what_is_no_list_is_given_once(caller: Client, path: str, name: str) -> None:
    answer = caller.get(f"/api/v1/{path}", {name: ["1700000000", "1700000001"]})
    assert answer.status_code == 422
    assert answer.json()["field"] == name
