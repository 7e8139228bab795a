"""Errors are problem documents that name the field, the value and the remedy."""

import pytest
from django.test import Client

from tests.support.web.served import Filled

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("path", "status", "field", "value"),
    [
        ("latency?from=yesterday", 422, "from", "yesterday"),
        ("latency?group_by=colour", 422, "group_by", "colour"),
        ("latency/series?step_s=0", 422, "step_s", "0"),
        ("requests?limit=1001", 422, "limit", "1001"),
        ("requests?order=fastest", 422, "order", "fastest"),
        ("requests?min_ms=-1", 422, "min_ms", "-1"),
        ("traces/xyz", 422, "trace_id", "xyz"),
        ("latency?from=2026-02-30", 422, "from", "2026-02-30"),
        ("requests?cursor=rub%20bish", 422, "cursor", "rub bish"),
        ("series", 422, "metric", None),
        ("series?metric=up&match=nothing", 422, "match", "nothing"),
        ("series/points?metric=up&as=percent", 422, "as", "percent"),
        ("series/metrics?text=" + "x" * 300, 422, "text", None),
        ("latency?status=failed", 422, "status", "failed"),
        ("requests?cache=cached", 422, "cache", "cached"),
        ("requests?prompt_bucket=512", 422, "prompt_bucket", "512"),
        ("requests?not=status=failed", 422, "not", "status=failed"),
        ("requests?not=prompt_bucket=512-1024", 422, "not", "prompt_bucket=512-1024"),
        ("explain?above=p42", 422, "above", "p42"),
        ("explain?slower_than_ms=soon", 422, "slower_than_ms", "soon"),
        # Values that contradict each other, or what the store has.
        ("latency?from=now&to=now-1h", 409, "from", "now"),
        ("latency?from=now-1000d", 409, "from", "now-1000d"),
        ("latency/series?from=now-7d&step_s=1", 409, "step_s", "1"),
        ("requests?cursor=rubbish", 409, "cursor", "rubbish"),
        ("explain?e2e_from_ms=9&e2e_to_ms=3", 409, "e2e_to_ms", None),
        ("explain?region_from=now-5m", 409, "region_to", None),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_a_remedy(
    caller: Client, served: Filled, path: str, status: int, field: str, value: str | None
) -> None:
    response = caller.get(f"/api/v1/{path}")
    assert (response.status_code, response["Content-Type"]) == (status, PROBLEM), response.content
    problem = response.json()
    assert (problem["field"], problem["status"]) == (field, status)
    assert value is None or problem["value"] == value
    assert problem["remedy"]


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"{", b'{"note": 1}', b'{"note": "x", "nota": "y"}'])
def test_a_body_that_is_not_the_documented_object_changes_nothing(caller: Client, served: Filled, body: bytes) -> None:
    response = caller.post("/api/v1/incidents/1/resolve", body, content_type="application/json")
    assert response.status_code in (400, 422)
    assert response["Content-Type"] == PROBLEM


def test_a_body_that_cannot_be_read_says_why(caller: Client, served: Filled) -> None:
    def said(body: bytes) -> dict[str, str]:
        answer: dict[str, str] = caller.post("/api/v1/objectives", body, content_type="application/json").json()
        return answer

    assert said(b'{"slug": }')["detail"] == "The body is no JSON: Expecting value: line 1 column 10 (char 9)"
    assert said(b"")["field"] == "body"


@pytest.mark.parametrize(("path", "what"), [("planning/forecasts/9", "stored forecast"), ("incidents/9", "incident")])
def test_what_is_not_there_is_named(caller: Client, served: Filled, path: str, what: str) -> None:
    assert caller.get(f"/api/v1/{path}").json()["detail"] == f"there is no {what} of this name or number"


def test_a_token_that_is_not_known_is_told_so_in_the_same_form(db: None) -> None:
    response = Client(headers={"authorization": "Bearer weir_api_nobody"}).get("/api/v1/stack")
    assert (response.status_code, response["Content-Type"]) == (401, PROBLEM)
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_misspelt_filter_is_told_apart_from_what_was_meant(caller: Client, served: Filled) -> None:
    assert "model" in caller.get("/api/v1/latency?modle=x").json()["remedy"]


@pytest.mark.parametrize(
    "path", ["latency", "latency/series", "requests", "requests.parquet", f"traces/{'a' * 32}", "targets"]
)
def test_a_store_that_is_away_is_a_503_to_be_tried_again(caller: Client, away: None, path: str) -> None:
    response = caller.get(f"/api/v1/{path}")
    assert response.status_code == 503
    assert response["Content-Type"] == PROBLEM
    assert int(response["Retry-After"]) >= 1


def test_a_store_that_refuses_says_what_its_owner_can_do(caller: Client, refusing: None) -> None:
    response = caller.get("/api/v1/latency")
    assert (response.status_code, response["Content-Type"]) == (500, PROBLEM)
    problem = response.json()
    assert problem["title"] == "The store refused" and "error 516" in problem["detail"]
    assert problem["remedy"] == "Its user or password is wrong: correct WEIR_STORE_DSN."
