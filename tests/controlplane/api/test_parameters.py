"""What the document does not name is refused by every operation: parameters that it does not have, and what is no list given twice."""

from typing import Any

import pytest
from django.test import Client

from tests.support.web.document import api_document

OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (path, method, operation)
    for path, operations in api_document()["paths"].items()
    for method, operation in operations.items()
    if method == "get"
]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=[f"{one[1]} {one[0]}" for one in OPERATIONS])
def test_a_misspelt_parameter_is_refused(caller: Client, path: str, method: str, operation: dict[str, Any]) -> None:
    place = path.replace("{trace_id}", "0" * 32).replace("{key}", "0" * 16)
    place = place.replace("{number}", "1").replace("{slug}", "none")
    known = [one["name"] for one in operation["parameters"] if one["in"] == "query" and one["required"]]
    answer = caller.get(place, {"modell": "x", **dict.fromkeys(known, "x")})
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["field"] == "modell"


@pytest.mark.parametrize(("path", "name"), [("objectives", "model"), ("silences", "limit"), ("latency", "from")])
def test_what_is_no_list_is_given_once(caller: Client, path: str, name: str) -> None:
    answer = caller.get(f"/api/v1/{path}", {name: ["1700000000", "1700000001"]})
    assert answer.status_code == 422
    assert answer.json()["field"] == name
