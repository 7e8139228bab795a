"""`POST /api/v1/objectives/preview`: would an objective that is not saved yet have paged?"""

from typing import Any

import pytest
from django.test import Client

from controlplane.slo.models import StoredObjective
from tests.support.web.served import Filled

SLOW = {"indicator": {"kind": "latency", "measure": "e2e", "threshold_ms": 1.0}, "target": 0.9}
QUICK = [{"severity": "page", "long_s": 120, "short_s": 60, "budget_share": 0.0001}]


def post(client: Client, **body: Any) -> tuple[int, Any]:
    response = client.post("/api/v1/objectives/preview", {"from": "now-1h", **body}, content_type="application/json")
    return response.status_code, response.json()


def test_it_replays_a_draft_beside_changed_windows(caller: Client, served: Filled) -> None:
    status, found = post(caller, objective=SLOW, compare={"quick": {"windows": QUICK}}, **served.hour)
    assert status == 200, found
    draft, quick = found["variants"]
    assert (draft["name"], quick["name"]) == ("draft", "quick")
    assert draft["total"] == quick["total"] > 0
    assert draft["pages"] == 1  # an hour of 30 days is recorded, and judged as the controller judges it
    assert quick["pages"] >= 1
    page = quick["episodes"][0]["pages"][0]
    assert page["rate"] > 1
    assert page["long_s"] == 120
    assert found["recorded_from_s"] == min(row.entry_start_ns for row in served.rows) // 10**9
    assert found["history_s"] == found["to_s"] - found["recorded_from_s"]
    assert not StoredObjective.objects.exists()


def test_each_value_of_a_split_is_told(caller: Client, served: Filled) -> None:
    status, found = post(caller, objective={**SLOW, "split_by": ["model"]}, **served.hour)
    assert status == 200, found
    [draft] = found["variants"]
    assert {one["scope"]["model"] for one in draft["scopes"]} == {row.model for row in served.rows}


@pytest.mark.parametrize(
    ("changed", "status", "field", "words"),
    [
        ({"target": "high"}, 422, "objective.target", "should be a valid number"),
        (
            {"indicator": {"kind": "latency", "measure": "ttft", "threshold_ms": 0}},
            422,
            "objective.indicator.threshold_ms",
            "should be greater than 0",
        ),
        (
            {"indicator": {"kind": "latency", "measure": "speed", "threshold_ms": 1}},
            422,
            "objective.indicator.measure",
            "Use one of ttft",
        ),
        ({"scope": {"color": "red"}}, 422, "objective.scope.color", "should be 'model'"),
        (
            {"windows": [{**QUICK[0], "budget_share": 2}]},
            422,
            "objective.windows.0.budget_share",
            "less than or equal to 1",
        ),
        ({"windows": [{**QUICK[0], "long_s": 90 * 86_400}]}, 409, "period_s", "is shorter than the window"),
        ({"minimum": {"total": -1}}, 422, "objective.minimum.total", "greater than or equal to 0"),
    ],
)
def test_bad_input_is_answered_by_field(
    caller: Client, served: Filled, changed: dict[str, Any], status: int, field: str, words: str
) -> None:
    answered, found = post(caller, objective={**SLOW, **changed})
    assert answered == status, found
    assert found["field"] == field, found
    assert words in found["detail"]


def test_a_variant_that_is_wrong_is_named(caller: Client, served: Filled) -> None:
    status, found = post(caller, objective=SLOW, compare={"strict": {"target": 2}})
    assert (status, found["field"]) == (422, "compare.strict.target")


def test_a_range_that_cannot_be_read_is_told(caller: Client, served: Filled) -> None:
    status, found = post(caller, objective=SLOW, **{"from": "soon"})
    assert (status, found["field"]) == (422, "from")
