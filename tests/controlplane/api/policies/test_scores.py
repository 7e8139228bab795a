"""Scores of answers over REST."""

import json
from typing import Any

import pytest
from django.test import Client

from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.policy.people_and_texts import approver
from tests.support.web.people import logged_in, member

pytestmark = pytest.mark.django_db

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def post(client: Client, *scores: dict[str, Any]) -> tuple[int, Any]:
    response = client.post("/api/v1/scores", json.dumps({"scores": scores}), content_type="application/json")
    return response.status_code, response.json()


def test_scores_are_stored_by_who_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)
    sender = logged_in(member("eva", "owner"))
    given = [
        {"request_id": TRACE.upper(), "name": "help", "value": 1},
        {"request_id": TRACE, "name": "tone", "value": -0.5},
    ]
    assert post(sender, *given) == (200, {"stored": 2})
    rows = store.rows("SELECT lower(hex(trace_id)), name, value FROM scores ORDER BY name")
    assert [tuple(row) for row in rows] == [(TRACE, "help", 1.0), (TRACE, "tone", -0.5)]
    status, answer = post(logged_in(approver("abe")), *given)
    assert status == 403 and "send scores of answers" in answer["detail"]


@pytest.mark.parametrize(
    "wrong", [{"request_id": "7"}, {"name": "Help!"}, {"value": "good"}, {"value": 1e13}, {"value": float("nan")}]
)
def test_what_is_no_score_is_refused(wrong: dict[str, Any]) -> None:
    status, _ = post(logged_in(member("eva", "owner")), {"request_id": TRACE, "name": "help", "value": 1} | wrong)
    assert status in (400, 422)
