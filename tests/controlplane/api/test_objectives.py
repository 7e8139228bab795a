"""Objectives and maintenance over REST."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from controlplane.controller.loop import Controller
from controlplane.fleet.models import Team
from controlplane.slo.models import Maintenance, StoredObjective
from controlplane.telemetry.query import answers
from tests.support.web.api import send
from tests.support.web.people import logged_in
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db(transaction=True)

SENT: dict[str, Any] = {
    "slug": "chat-e2e",
    "name": "Chat answers within 1 ms",
    "owner": "serving",
    "indicator": {"kind": "latency", "measure": "e2e", "threshold_ms": 1.0},
    "target": 0.9,
    "scope": {"model": "chat-large"},
}


@pytest.fixture
def api(db: None) -> Client:
    """Somebody who may change objectives."""
    Team.objects.create(name="serving")
    return logged_in(User.objects.create_superuser("api-olga"))


def test_an_objective_can_be_made_read_changed_and_removed(api: Client) -> None:
    made = send(api, "post", "objectives", SENT)
    assert made.status_code == 201, made.content
    assert made.json()["revision"] == 1
    read = api.get("/api/v1/objectives/chat-e2e").json()
    assert (read["scope"], read["period"]) == ({"model": "chat-large"}, {"kind": "rolling", "period_s": 2592000})

    same = send(api, "put", "objectives/chat-e2e", SENT)
    changed = send(api, "put", "objectives/chat-e2e", {**SENT, "target": 0.8})
    assert (same.json()["revision"], changed.json()["revision"]) == (1, 2)
    revisions = api.get("/api/v1/objectives/chat-e2e/revisions").json()
    assert (revisions[0]["number"], revisions[0]["who"], revisions[0]["changed"]) == (2, "api-olga", ["target"])

    assert api.delete("/api/v1/objectives/chat-e2e").status_code == 204
    assert api.get("/api/v1/objectives/chat-e2e").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "status", "field", "words"),
    [
        ({"target": 1}, 422, "target", "should be less than 1"),
        ({"owner": "nobody"}, 409, "owner", "serving"),
        ({"trget": 0.9}, 422, "trget", "is not a field"),
        ({"indicator": {"kind": "latency", "measure": "ttft"}}, 409, "indicator", "threshold_ms"),
        ({"scope": {"planet": "mars"}}, 422, "scope", "prompt_bucket"),
        ({"slug": "Chat E2E"}, 422, "slug", "lower-case"),
    ],
)
def test_a_refusal_is_a_problem_that_names_field_and_remedy(
    api: Client, wrong: dict[str, Any], status: int, field: str, words: str
) -> None:
    response = send(api, "post", "objectives", {**SENT, **wrong})
    assert response.status_code == status
    problem = response.json()
    assert field in problem["field"]
    assert words in problem["detail"]
    assert not StoredObjective.objects.exists()


def test_what_was_read_may_be_sent_back_and_what_is_left_out_of_switches_and_notes_stays(api: Client) -> None:
    send(api, "post", "objectives", {**SENT, "enabled": False, "annotations": {"ticket": "OPS-1"}})
    read = api.get("/api/v1/objectives/chat-e2e").json()
    answer = send(api, "put", "objectives/chat-e2e", read)
    assert (answer.status_code, answer.json()) == (200, read)
    changed = send(api, "put", "objectives/chat-e2e", {**SENT, "target": 0.5}).json()
    assert (changed["enabled"], changed["annotations"], changed["target"]) == (False, {"ticket": "OPS-1"}, 0.5)


def test_a_change_of_an_older_revision_is_refused(api: Client) -> None:
    send(api, "post", "objectives", SENT)
    read = api.get("/api/v1/objectives/chat-e2e").json()
    send(api, "put", "objectives/chat-e2e", {**SENT, "target": 0.5})
    answer = send(api, "put", "objectives/chat-e2e", read)
    assert (answer.status_code, answer.json()["field"]) == (409, "revision")
    assert api.get("/api/v1/objectives/chat-e2e").json()["target"] == 0.5


def test_status_and_burndown_say_what_the_controller_found(api: Client, fresh: Filled) -> None:
    send(api, "post", "objectives", SENT)
    before = api.get("/api/v1/objectives/chat-e2e/status").json()["states"]
    controller = Controller(answers.store(), settings.CONFIG, lambda *_: None)
    controller.step(datetime.now(UTC))
    while controller.evaluator.sweep(time.time_ns()):
        pass
    controller.evaluator.sweep(time.time_ns() + 3_600 * 10**9)
    controller.step(datetime.now(UTC))

    [state] = api.get("/api/v1/objectives/chat-e2e/status").json()["states"]
    counted = [row for row in fresh.of(model="chat-large") if row.status == "ok"]
    assert [one["state"] for one in before] == ["unknown"]
    assert (state["state"], state["severity"]) == ("firing", "page")
    assert state["total"] == len(counted)
    assert state["bad"] == sum(row.e2e_ns > 1_000_000 for row in counted)
    listed = api.get("/api/v1/objectives?state=firing&owner=serving&model=chat-large").json()
    assert [one["slug"] for one in listed["objectives"]] == ["chat-e2e"]
    assert api.get("/api/v1/objectives?state=quiet").json()["objectives"] == []
    burned = api.get("/api/v1/objectives/chat-e2e/burndown").json()
    assert burned["key"] == "chat-e2e/model=chat-large"
    assert api.get("/api/v1/objectives/chat-e2e/burndown?of=nonsense").status_code == 404


def test_the_burn_down_of_the_first_minutes_says_what_the_ledger_does(api: Client, served: Filled) -> None:
    send(api, "post", "objectives", SENT)
    began = api.get("/api/v1/objectives/chat-e2e/burndown").json()
    counted = [row for row in served.of(model="chat-large") if row.status == "ok"]
    bad = sum(row.e2e_ns > 1_000_000 for row in counted)
    assert sum(point["total"] for point in began["points"]) == len(counted)
    assert sum(point["bad"] for point in began["points"]) == bad
    assert began["points"][-1]["left_share"] == pytest.approx(1 - bad / (0.1 * len(counted)))
    assert began["from_ns"] == min(row.entry_start_ns for row in served.rows)


def test_maintenance_can_be_planned_changed_and_taken_back(api: Client) -> None:
    send(api, "post", "objectives", SENT)
    sent = {
        "name": "Drivers",
        "start": "2026-11-22T02:00:00",
        "zone": "Europe/Berlin",
        "duration_s": 3600,
        "rule": "FREQ=WEEKLY;BYDAY=SU",
        "objectives": ["chat-e2e"],
        "reason": "update",
    }
    made = send(api, "post", "maintenance", sent)
    assert made.status_code == 201, made.content
    number = made.json()["id"]
    assert made.json()["author"] == "api-olga"
    assert send(api, "put", f"maintenance/{number}", {**sent, "objectives": []}).json()["objectives"] == []
    assert [one["id"] for one in api.get("/api/v1/maintenance").json()] == [number]
    for wrong, status, words in (
        ({"objectives": ["absent"]}, 409, "absent"),
        ({"rule": "sometimes"}, 409, "FREQ"),
        ({"zone": "Mars"}, 409, "Europe/Berlin"),
        ({"start": "soon"}, 422, "2026-11-22T02:00:00"),
    ):
        refused = send(api, "put", f"maintenance/{number}", {**sent, **wrong})
        assert refused.status_code == status
        assert words in refused.json()["detail"]
    assert api.delete(f"/api/v1/maintenance/{number}").status_code == 204
    assert not Maintenance.objects.exists()
