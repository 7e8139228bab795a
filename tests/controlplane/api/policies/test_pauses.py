"""Pauses and overrides over REST."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.fleet.models import Team
from controlplane.incidents.models import ChangeRecord
from controlplane.policy.models import Override, Pause
from controlplane.policy.observe import people
from controlplane.policy.revisions import steps
from tests.support.policy.people_and_texts import approver, ladder, operator, small_fleet
from tests.support.web.people import logged_in, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def oto() -> Client:
    small_fleet()
    return logged_in(operator("oto"))


def post(client: Client, path: str, **body: Any) -> tuple[int, Any]:
    body = {"ends_at": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "A test of load", **body}
    response = client.post(f"/api/v1/{path}", body, content_type="application/json")
    return response.status_code, response.json()


def test_a_pause_is_made_listed_and_ended(oto: Client) -> None:
    status, made = post(oto, "pauses", scope="pool", target="chat-eu")
    assert (status, made["author"], made["target"], made["ended_at"]) == (201, "oto", "chat-eu", None)
    assert [row["number"] for row in oto.get("/api/v1/pauses").json()["pauses"]] == [made["number"]]
    ended = oto.delete(f"/api/v1/pauses/{made['number']}").json()
    assert (ended["ended_by"], ended["ends_at"]) == ("oto", made["ends_at"])
    assert oto.get("/api/v1/pauses").json()["pauses"] == []
    assert len(oto.get("/api/v1/pauses", {"over": "true"}).json()["pauses"]) == 1
    assert oto.delete(f"/api/v1/pauses/{made['number']}").json() == ended  # a second end changes nothing


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"scope": "pool", "target": "chat-mars"}, "target", "target='chat-mars' is no pool: use one of chat-eu"),
        ({"scope": "model"}, "target", "target is missing: name the model"),
        ({"scope": "all", "target": "chat"}, "target", "leave it empty"),
        ({"scope": "policy", "target": "none"}, "target", "is no policy: use one of none yet"),
        ({"scope": "all", "ends_at": "2026-01-01T00:00:00Z"}, "ends_at", "is over already: choose a later end"),
        ({"scope": "all", "ends_at": "2199-01-01T00:00:00Z"}, "ends_at", "is more than 31 days away"),
        ({"scope": "all", "reason": " "}, "reason", "reason"),
    ],
)
def test_a_pause_that_cannot_be_is_refused_by_field(oto: Client, body: dict[str, Any], field: str, words: str) -> None:
    status, answer = post(oto, "pauses", **body)
    assert (status in (409, 422), answer["field"]) == (True, field)
    assert words in answer["detail"]
    assert not Pause.objects.exists()


def test_an_override_is_of_a_pool_or_of_a_ladder(oto: Client) -> None:
    status, made = post(oto, "overrides", pool="chat-eu", replicas=3)
    assert (status, made["replicas"], made["step"]) == (201, 3, None)
    steps.activate(steps.propose(ladder(), who="ann", source="api").revision, "ann")
    status, made = post(oto, "overrides", model="chat", tier="batch", step=0)
    assert (status, made["model"], made["step"]) == (201, "chat", 0)
    assert oto.delete(f"/api/v1/overrides/{made['number']}").json()["ended_by"] == "oto"
    assert [row["pool"] for row in oto.get("/api/v1/overrides").json()["overrides"]] == ["chat-eu"]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "pool", "give either a pool"),
        ({"pool": "chat-eu", "replicas": 1, "model": "chat", "step": 1}, "pool", "give either a pool"),
        ({"pool": "chat-eu"}, "replicas", "replicas is missing"),
        ({"pool": "chat-eu", "replicas": 1, "step": 1}, "step", "belongs to a model"),
        ({"model": "chat"}, "step", "step is missing"),
        ({"model": "chat", "step": 1, "replicas": 1}, "replicas", "belong to a pool"),
        ({"model": "chat", "step": 3}, "step", "choose 0 to 2"),
        ({"model": "chat", "step": 1, "tier": "premium"}, "tier", "is not on the ladder"),
        ({"model": "chat", "step": 1, "tier": "gold"}, "tier", "is no tier"),
        ({"pool": "chat-eu", "replicas": 10001}, "replicas", "10000"),
    ],
)
def test_an_override_that_cannot_be_is_refused_by_field(
    oto: Client, body: dict[str, Any], field: str, words: str
) -> None:
    steps.activate(steps.propose(ladder(), who="ann", source="api").revision, "ann")
    status, answer = post(oto, "overrides", **body)
    assert (status in (409, 422), answer["field"]) == (True, field)
    assert words in answer["detail"]
    assert not Override.objects.exists()


def test_a_ladder_without_a_policy_has_no_step(oto: Client) -> None:
    status, answer = post(oto, "overrides", model="chat", step=1)
    assert (status, answer["field"]) == (409, "model")
    assert "activate a policy of kind Degradation first" in answer["detail"]


def test_what_is_paused_is_the_teams_and_everything_is_administrators(oto: Client) -> None:
    sue, ada = logged_in(member("sue", "owner", team="search")), logged_in(User.objects.create_superuser("ada"))
    assert post(oto, "pauses", scope="all")[0] == post(sue, "pauses", scope="all")[0] == 403
    everything = post(ada, "pauses", scope="all")[1]["number"]
    mine = post(oto, "pauses", scope="pool", target="chat-eu")[1]["number"]
    assert post(sue, "pauses", scope="model", target="chat")[0] == 403
    assert post(sue, "overrides", pool="chat-eu", replicas=1)[0] == 403
    assert [sue.delete(f"/api/v1/pauses/{number}").status_code for number in (everything, mine)] == [403, 403]
    assert [oto.delete(f"/api/v1/pauses/{number}").status_code for number in (everything, mine)] == [403, 200]
    assert sue.get(f"/api/v1/pauses/{mine}").status_code == 200


def counting() -> int:
    return len(list(people.overrides(timezone.now())))


def test_where_a_team_wants_it_an_override_counts_once_another_person_approved_it(oto: Client) -> None:
    Team.objects.update(overrides_need_approval=True)
    made = post(oto, "overrides", pool="chat-eu", replicas=3)[1]
    approve = f"/api/v1/overrides/{made['number']}/approve"
    assert (made["waits"], counting(), ChangeRecord.objects.count()) == (True, 0, 0)
    assert "◆ waits for approval" in oto.get("/pauses").content.decode()
    assert "Overrides that wait for approval: 1" in oto.get("/policies").content.decode()
    refused = oto.post(approve)
    assert refused.status_code == 403
    User.objects.filter(username="oto").update(is_superuser=True)
    assert oto.post(approve).status_code == 403, "nobody approves what they made"
    abe = logged_in(approver("abe"))
    assert (abe.post(approve).json()["approved_by"], counting()) == ("abe", 1)
    assert abe.post(approve).status_code == 409
    oto.delete(f"/api/v1/overrides/{made['number']}")
    of = "override of chat-eu: 3 replicas"
    assert [each.summary for each in ChangeRecord.objects.order_by("pk")] == [
        f"{of}, by oto, approved by abe: A test of load",
        f"{of}, ended by oto: A test of load",
    ]


def test_who_may_approve_an_override_may_reject_it_until_it_counts(oto: Client) -> None:
    Team.objects.update(overrides_need_approval=True)
    first, second, third = (post(oto, "overrides", pool="chat-eu", replicas=each)[1]["number"] for each in (1, 2, 3))
    abe, vera = logged_in(approver("abe")), logged_in(member("vera", "viewer"))
    at = "/api/v1/overrides/{}"
    assert (">Reject<" in abe.get("/pauses").content.decode(), ">Withdraw<" in oto.get("/pauses").content.decode()) == (
        True,
        True,
    )
    assert vera.delete(at.format(first)).status_code == 403
    assert abe.delete(at.format(first)).json()["ended_by"] == "abe"
    assert abe.post(f"/pauses/override/{second}/end").status_code == 302
    assert Override.objects.get(pk=second).ended_by == "abe"
    assert abe.post(at.format(first) + "/approve").status_code == 409
    abe.post(at.format(third) + "/approve")
    assert (abe.delete(at.format(third)).status_code, counting()) == (403, 1)
    assert (oto.delete(at.format(third)).status_code, counting()) == (200, 0)
    assert ChangeRecord.objects.count() == 2, "what never counted changed nothing"


def test_a_pause_and_an_administrators_override_do_not_wait_and_are_marked(oto: Client) -> None:
    Team.objects.update(overrides_need_approval=True)
    post(oto, "pauses", scope="pool", target="chat-eu")
    assert len(list(people.pauses(timezone.now()))) == 1
    User.objects.filter(username="oto").update(is_superuser=True)
    made = post(logged_in(User.objects.get(username="oto")), "overrides", pool="chat-eu", replicas=3)[1]
    assert (made["waits"], counting()) == (False, 1)
    scope = {"model": "chat", "pool": "chat-eu"}
    assert [(each.summary, each.scope, each.team) for each in ChangeRecord.objects.order_by("pk")] == [
        ("pause of chat-eu, by oto: A test of load", scope, "serving"),
        ("override of chat-eu: 3 replicas, by oto: A test of load", scope, "serving"),
    ]
