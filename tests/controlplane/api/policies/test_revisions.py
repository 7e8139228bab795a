"""Policies and their revisions over REST."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.planning.models import PlanJob
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from tests.support.policy.people_and_texts import (
    approver,
    author,
    logged_in,
    operator,
    person,
    scaling,
    small_fleet,
)

pytestmark = pytest.mark.django_db
OF_CHAT = "/api/v1/policies/chat-replicas"


@pytest.fixture(autouse=True)
def _fleet() -> None:
    small_fleet(requires_approval=True)


@pytest.fixture
def ann() -> Client:
    return logged_in(author("ann"))


@pytest.fixture
def abe() -> Client:
    return logged_in(approver("abe"))


@pytest.fixture
def oto() -> Client:
    return logged_in(operator("oto"))


def post(client: Client, path: str, body: Any = None) -> tuple[int, Any]:
    response = client.post(path, {} if body is None else body, content_type="application/json")
    return response.status_code, response.json()


def get(client: Client, path: str, **query: str) -> tuple[int, Any]:
    response = client.get(path, query)
    return response.status_code, response.json()


def test_a_policy_from_its_first_draft_to_a_roll_back(ann: Client, abe: Client, oto: Client) -> None:
    status, draft = post(ann, "/api/v1/policies", {"text": scaling(4), "note": "Room for four"})
    assert (status, draft["number"], draft["state"], draft["author"]) == (201, 1, "draft", "ann")
    assert draft["needs_approval"] and draft["steps"] == ["preview", "shadow", "retire"]
    assert draft["document"]["spec"]["max"] == 4
    assert post(ann, "/api/v1/policies", {"text": scaling(4)})[0] == 200
    steps.previewed(PolicyRevision.objects.get().pk, {"attainment": 0.99}, "worker")
    assert post(ann, f"{OF_CHAT}/revisions/1/shadow")[1]["state"] == "shadow"
    assert post(abe, f"{OF_CHAT}/revisions/1/approve", {"note": "Fine"})[1]["approved_by"] == "abe"
    status, active = post(oto, f"{OF_CHAT}/revisions/1/activate", {})
    assert (status, active["state"], active["preview"]) == (200, "active", {"attainment": 0.99})
    assert [event["what"] for event in active["events"]] == ["activated", "approved", "shadow", "previewed", "proposed"]

    post(ann, "/api/v1/policies", {"text": scaling(6)})
    PolicyRevision.objects.filter(number=2).update(state="approved")
    post(oto, f"{OF_CHAT}/revisions/2/activate", {})
    status, policy = get(ann, OF_CHAT)
    assert (policy["active"], policy["newest"], policy["rolls_back_to"], policy["target"]) == (2, 2, 1, "pool:chat-eu")
    status, back = post(oto, f"{OF_CHAT}/roll-back", {})
    assert (status, back["number"], back["restores"], back["document"]["spec"]["max"]) == (200, 3, 1, 4)
    assert ann.get(f"{OF_CHAT}.yaml").content.decode() == scaling(4)
    assert ann.get("/api/v1/policies.yaml").content.decode() == scaling(4)
    assert post(oto, f"{OF_CHAT}/revisions/3/retire", {})[1]["retired_by"] == "oto"
    assert ann.get(f"{OF_CHAT}.yaml").status_code == 404


def test_a_bad_text_is_answered_with_lines(ann: Client) -> None:
    status, answer = post(ann, "/api/v1/policies", {"text": scaling().replace("max: 4", "max: 0")})
    assert (status, answer["title"], answer["field"]) == (409, "Refused", "spec.max")
    assert answer["detail"].startswith("line 8, column 3: ")
    assert [problem["line"] for problem in answer["problems"]] == [8]


def test_each_step_wants_its_own_right(ann: Client, abe: Client, oto: Client) -> None:
    nobody = logged_in(person("rita"))
    status, answer = post(nobody, "/api/v1/policies", {"text": scaling()})
    assert (status, answer["detail"]) == (
        403,
        "'rita' may not propose, preview or shadow revisions of policies: ask an administrator for the group 'Policy authors'",
    )
    post(ann, "/api/v1/policies", {"text": scaling()})
    one = f"{OF_CHAT}/revisions/1"
    for client, refused in ((ann, ["approve", "activate"]), (abe, ["preview", "shadow", "activate", "retire"])):
        assert [
            step for step in ("preview", "shadow", "approve", "activate", "retire") if _status(client, one, step) == 403
        ] == refused
    assert post(abe, f"{OF_CHAT}/roll-back", {})[0] == 403
    assert get(nobody, one)[0] == 200
    PolicyRevision.objects.update(state="active")
    assert _status(ann, one, "retire") == 403  # what is in force ends with the right that began it
    assert _status(logged_in(person("pat", "Policy authors", "Policy operators")), one, "retire") == 200


def _status(client: Client, path: str, step: str) -> int:
    return post(client, f"{path}/{step}")[0]


def test_nobody_approves_what_they_wrote_even_administrators() -> None:
    ada = logged_in(User.objects.create_superuser("ada"))
    post(ada, "/api/v1/policies", {"text": scaling()})
    PolicyRevision.objects.update(state="previewed")
    status, answer = post(ada, f"{OF_CHAT}/revisions/1/approve", {})
    assert (status, answer["field"]) == (409, "state")
    assert "an approval is by another person" in answer["detail"]


def test_a_preview_is_a_job(ann: Client) -> None:
    post(ann, "/api/v1/policies", {"text": scaling()})
    status, answer = post(ann, f"{OF_CHAT}/revisions/1/preview")
    job = PlanJob.objects.get()
    assert (status, answer) == (202, {"job": job.pk, "state": "queued"})
    assert job.author == "ann"
    assert post(ann, f"{OF_CHAT}/revisions/1/preview")[1]["job"] == job.pk


def test_policies_are_listed(ann: Client) -> None:
    post(ann, "/api/v1/policies", {"text": scaling()})
    post(ann, "/api/v1/policies", {"text": scaling(name="other", pool="chat-us")})
    PolicyRevision.objects.filter(name="other").update(state="active")
    assert [row["name"] for row in get(ann, "/api/v1/policies")[1]["policies"]] == ["chat-replicas", "other"]
    assert [row["name"] for row in get(ann, "/api/v1/policies", in_force="true")[1]["policies"]] == ["other"]
    assert get(ann, "/api/v1/policies", kind="Canary")[1] == {"policies": []}


def test_what_is_not_there_is_404(ann: Client, oto: Client) -> None:
    assert (
        get(ann, OF_CHAT)[0] == get(ann, f"{OF_CHAT}/revisions/1")[0] == post(oto, f"{OF_CHAT}/roll-back", {})[0] == 404
    )
