"""Policies and their revisions over REST."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import ApiToken
from controlplane.planning.models import PlanJob
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from tests.support.policy.people_and_texts import (
    approver,
    author,
    ladder,
    operator,
    other_teams_pool,
    routing,
    scaling,
    small_fleet,
)
from tests.support.web.people import logged_in, member

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
    assert draft["approval"] == ["serving"] and draft["steps"] == ["preview", "shadow", "retire"]
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
    status, leaving = post(oto, f"{OF_CHAT}/revisions/3/retire", {"note": "Not needed"})
    assert (leaving["state"], leaving["retirement_by"], leaving["steps"]) == ("active", "oto", ["preview", "keep"])
    assert post(abe, f"{OF_CHAT}/revisions/3/keep", {})[1]["retirement_by"] == ""
    post(oto, f"{OF_CHAT}/revisions/3/retire", {})
    assert post(oto, f"{OF_CHAT}/revisions/3/approve", {})[0] == 403
    assert post(abe, f"{OF_CHAT}/revisions/3/approve", {})[1]["retired_by"] == "oto"
    assert ann.get(f"{OF_CHAT}.yaml").status_code == 404


def test_a_bad_text_is_answered_with_lines(ann: Client) -> None:
    status, answer = post(ann, "/api/v1/policies", {"text": scaling().replace("max: 4", "max: 0")})
    assert (status, answer["title"], answer["field"]) == (409, "Refused", "spec.max")
    assert answer["detail"].startswith("line 8, column 3: ")
    assert [problem["line"] for problem in answer["problems"]] == [8]


def test_each_step_wants_its_own_role_in_the_team(ann: Client, abe: Client) -> None:
    steps = ("preview", "shadow", "approve", "activate", "retire")
    people = {
        "abe": abe,
        "rita": logged_in(member("rita", "viewer")),
        "sue": logged_in(member("sue", "owner", "approver", team="search")),
    }
    refused = {
        name: post(client, "/api/v1/policies", {"text": scaling()})[1]["detail"] for name, client in people.items()
    }
    assert refused["sue"] == "'sue' may not change policies of serving: ask an owner of serving, or an administrator"
    post(ann, "/api/v1/policies", {"text": scaling()})
    one = f"{OF_CHAT}/revisions/1"
    expected = {"abe": ["preview", "shadow", "activate"], "rita": list(steps), "sue": list(steps)}
    assert {name: [step for step in steps if _status(people[name], one, step) == 403] for name in people} == expected
    assert [step for step in steps if _status(ann, one, step) == 403] == ["approve"]
    PolicyRevision.objects.update(state="active")
    assert post(people["sue"], f"{OF_CHAT}/roll-back", {})[0] == 403
    assert get(people["rita"], one)[0] == 200


@pytest.mark.parametrize(
    ("text", "teams"),
    [
        (scaling(), "serving"),
        (scaling().replace("metadata:", "metadata:\n  team: search"), "search and serving"),
        (routing().replace("chat-us", "search-eu"), "search and serving"),
        (ladder().replace("max_output_tokens: 128", "pool: search-eu"), "search and serving"),
    ],
)
def test_a_policy_is_of_every_team_whose_pools_it_touches(ann: Client, text: str, teams: str) -> None:
    other_teams_pool()
    sue = logged_in(member("sue", "owner", team="search"))
    status, answer = post(sue, "/api/v1/policies", {"text": text})
    assert status == 403 and f"may not change policies of {teams}: " in answer["detail"]
    assert post(ann, "/api/v1/policies", {"text": text})[0] == (201 if teams == "serving" else 403)


def test_a_policy_of_another_team_is_not_replaced_under_its_name(ann: Client) -> None:
    other_teams_pool()
    post(ann, "/api/v1/policies", {"text": scaling()})
    sue = logged_in(member("sue", "owner", team="search"))
    status, _ = post(sue, "/api/v1/policies", {"text": scaling(pool="search-eu")})
    assert (status, PolicyRevision.objects.count()) == (403, 1)
    assert post(sue, "/api/v1/policies", {"text": scaling(name="own", pool="search-eu")})[0] == 201


def _status(client: Client, path: str, step: str) -> int:
    return post(client, f"{path}/{step}")[0]


@pytest.mark.parametrize("is_administrator", [False, True])
def test_nobody_approves_what_they_wrote_by_whatever_way(is_administrator: bool) -> None:
    """Written with a token and approved in the admin, on the page or over REST."""
    ada = member("ada", "owner", "approver")
    User.objects.filter(pk=ada.pk).update(is_superuser=is_administrator)
    _, token = ApiToken.objects.issue(ada, "robot", ["policies"])
    by_token, by_session = Client(headers={"authorization": f"Bearer {token}"}), logged_in(ada)
    assert post(by_token, "/api/v1/policies", {"text": scaling()})[0] == 201
    PolicyRevision.objects.update(state="previewed")
    number = PolicyRevision.objects.get().pk
    assert post(by_session, "/api/v1/policies", {"text": scaling()})[0] == 200  # the same text again is no new author
    for client in (by_token, by_session):
        status, answer = post(client, f"{OF_CHAT}/revisions/1/approve", {})
        assert status == 403 and "ask an approver of serving, or an administrator" in answer["detail"]
    assert by_session.post("/policies/chat-replicas/1/approve").status_code == 403
    by_session.post(f"/admin/policy/policyrevision/{number}/step/approve")
    assert PolicyRevision.objects.get().state == "previewed"


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
