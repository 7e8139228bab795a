"""Incidents, silences and changes over REST."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint
from tests.support.incidents.alerts import NOW, UP, alert
from tests.support.web.api import send
from tests.support.web.served import Filled

pytestmark = pytest.mark.django_db


@pytest.fixture
def burning(away: None) -> Incident:
    engine.observe([alert(), alert(UP, severity="ticket", burn=4)], NOW)
    return Incident.objects.get(objective="chat-ttft")


def test_the_list_has_each_open_incident_with_its_text(caller: Client, burning: Incident) -> None:
    found = caller.get("/api/v1/incidents").json()
    assert [one["objective"] for one in found["incidents"]] == ["chat-up", "chat-ttft"] or [
        one["objective"] for one in found["incidents"]
    ] == ["chat-ttft", "chat-up"]
    (page,) = caller.get("/api/v1/incidents?severity=page").json()["incidents"]
    assert page["summary"] == burning.summary
    assert page["key"] == burning.notice_key
    assert page["links"][0]["href"].endswith(f"/incidents/{burning.pk}")


def test_pages_of_the_list_follow_one_another(caller: Client, burning: Incident) -> None:
    first = caller.get("/api/v1/incidents?limit=1").json()
    second = caller.get(f"/api/v1/incidents?limit=1&before={first['next_before']}").json()
    assert {first["incidents"][0]["number"], second["incidents"][0]["number"]} == set(
        Incident.objects.values_list("pk", flat=True)
    )
    assert second["next_before"] is None


def test_one_incident_with_its_timeline(caller: Client, burning: Incident) -> None:
    found = caller.get(f"/api/v1/incidents/{burning.pk}").json()
    assert [entry["kind"] for entry in found["timeline"]] == ["opened", "withheld"]
    assert found["attribution_missing"] == "the store does not answer"
    assert found["resolves"] == "resolves once no window has burned too fast for 2 min"
    assert found["component"] == ""
    assert caller.get("/api/v1/incidents/999999").status_code == 404


def test_acknowledge_note_and_resolve_bear_the_callers_name(caller: Client, burning: Incident) -> None:
    path = f"incidents/{burning.pk}"
    assert send(caller, "post", f"{path}/acknowledge", {"note": "mine"}).json() == {
        "changed": True,
        "status": "acknowledged",
    }
    assert send(caller, "post", f"{path}/acknowledge").json() == {"changed": False, "status": "acknowledged"}
    assert send(caller, "post", f"{path}/notes", {"note": "restarted"}).json()["changed"]
    assert send(caller, "post", f"{path}/notes", {"note": ""}).status_code == 422
    assert send(caller, "post", f"{path}/resolve").json() == {"changed": True, "status": "resolved"}
    told = [(one.kind, one.by, one.text) for one in burning.entries.exclude(by="weir")]
    assert told == [("acknowledged", "caller", "mine"), ("note", "caller", "restarted"), ("resolved", "caller", "")]


def test_silences_are_made_read_changed_and_ended(caller: Client) -> None:
    ends = timezone.now() + timedelta(hours=2)
    made = send(
        caller,
        "post",
        "silences",
        {"matchers": ["owner=serving", "severity=page"], "ends_at": ends.isoformat(), "reason": "test"},
    )
    assert made.status_code == 201
    number = made.json()["number"]
    assert made.json()["author"] == "caller"
    assert [one["number"] for one in caller.get("/api/v1/silences").json()["silences"]] == [number]
    later = (ends + timedelta(hours=1)).isoformat()
    assert send(caller, "patch", f"silences/{number}", {"ends_at": later}).json()["reason"] == "test"
    assert SilenceRecord.objects.get().ends_at > ends
    assert send(caller, "delete", f"silences/{number}").status_code == 200
    assert caller.get("/api/v1/silences").json()["silences"] == []
    assert len(caller.get("/api/v1/silences?over=true").json()["silences"]) == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"matchers": ["colour=blue"]}, 422),
        ({"matchers": []}, 422),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 409),
        ({"ends_at": "2099-01-01T00:00:00"}, 422),
        ({"ends_at": "2099-01-01T00:00:00Z"}, 409),
        ({"reason": ""}, 422),
    ],
)
def test_a_silence_that_cannot_be_is_refused(caller: Client, change: dict[str, Any], status: int) -> None:
    ends = (timezone.now() + timedelta(hours=2)).isoformat()
    answer = send(caller, "post", "silences", {"matchers": ["tier=batch"], "ends_at": ends, "reason": "x"} | change)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert not SilenceRecord.objects.exists()


def test_a_deployment_is_told_once(caller: Client) -> None:
    endpoint = Endpoint.objects.create(kind="webhook", url="https://hooks.example.com/", secret="x" * 32)
    Destination.objects.create(name="hooks", kind="webhook", endpoint=endpoint)
    given = {"identity": "deployment/gateway/2.1", "summary": "deployment of gateway 2.1", "source": "ci"}
    assert send(caller, "post", "changes", given).json() == {"told": True}
    assert send(caller, "post", "changes", given).json() == {"told": False}
    assert Delivery.objects.filter(action="change").count() == 1
    assert caller.get("/api/v1/changes").json()["changes"][0]["identity"] == given["identity"]
    assert send(caller, "post", "changes", given | {"identity": "x", "link": "javascript:alert(1)"}).status_code == 422


def test_long_lists_are_read_page_by_page(caller: Client) -> None:
    ends = timezone.now() + timedelta(hours=2)
    numbers = [
        SilenceRecord.objects.create(
            matchers=["tier=batch"], starts_at=timezone.now(), ends_at=ends, author="a", reason="r"
        ).pk
        for _ in range(5)
    ]
    read: list[int] = []
    before = ""
    while True:
        page = caller.get(f"/api/v1/silences?limit=2{before}").json()
        read += [one["number"] for one in page["silences"]]
        if page["next_before"] is None:
            break
        before = f"&before={page['next_before']}"
    assert read == numbers[::-1]


def test_a_step_of_the_runbook_is_ticked_off_and_opened_again(caller: Client, burning: Incident) -> None:
    Incident.objects.update(runbook_text="- look at the queue\n- add a replica")
    path = f"incidents/{burning.pk}"
    assert [send(caller, "post", f"{path}/steps/2").json()["changed"] for _ in range(2)] == [True, False]
    done = [each["done"] for each in caller.get(f"/api/v1/{path}").json()["steps"]]
    assert done[0] is None and done[1]["by"] == "caller"
    assert send(caller, "post", f"{path}/steps/2", {"done": False}).json()["changed"]
    missing = send(caller, "post", f"{path}/steps/3")
    assert missing.status_code == 404 and "has no step 3" in missing.json()["detail"]
    told = [(one.kind, one.by) for one in burning.entries.exclude(by="weir")]
    assert told == [("step", "caller")] * 2


def test_a_resolution_is_taken_back(caller: Client, burning: Incident) -> None:
    path = f"incidents/{burning.pk}"
    assert send(caller, "post", f"{path}/reopen", {}).status_code == 409  # it is open
    send(caller, "post", f"{path}/resolve", {})
    assert send(caller, "post", f"{path}/reopen", {}).json() == {"changed": True, "status": "open"}


def test_a_page_says_what_was_deployed_just_before(caller: Client, served: Filled) -> None:
    from datetime import UTC, datetime

    from tests.support.incidents.burning import SLOW, at_the_end

    now = datetime.fromtimestamp(served.to_ns // 10**9, UTC)
    at = (now - timedelta(minutes=6)).isoformat()
    given = {
        "identity": "d/1",
        "summary": "deployment of gateway 2.1",
        "source": "ci",
        "at": at,
        "scope": {"model": "chat-large"},
    }
    elsewhere = {"identity": "d/2", "summary": "elsewhere", "source": "ci", "at": at, "scope": {"model": "chat-small"}}
    for one in (given, elsewhere):
        send(caller, "post", "changes", one)
    engine.observe([at_the_end(served, SLOW)], now)
    (page,) = caller.get("/api/v1/incidents").json()["incidents"]
    assert "deployment of gateway 2.1" in page["summary"]
    assert "elsewhere" not in page["summary"]
