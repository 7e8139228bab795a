"""The runbook of an objective goes along with its incident: the next step, who ticked what, and what others read of it."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import ApiToken
from controlplane.incidents.act import actions
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery.models import Delivery
from tests.support.incidents.alerts import TTFT, after, alert
from tests.support.incidents.notices import pagerduty
from tests.support.web.html import html_of
from tests.support.web.people import logged_in, member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
TEXT = "Queue times.\n\n1. Look at the *queue*\n2. Roll back <b>the</b> canary\n"


@pytest.fixture
def opened() -> Incident:
    pagerduty("PagerDuty")
    engine.observe([alert(replace(TTFT, runbook="", runbook_text=TEXT))], after(0))
    return Incident.objects.get()


def test_the_next_open_step_is_first_and_ticks_have_names(reader: Client, opened: Incident) -> None:
    path = f"/incidents/{opened.pk}"

    def first() -> str:
        return html_of(reader.get(path)).partition('class="next"')[2].partition("</div>")[0]

    assert "Look at the <em>queue</em>" in first()
    reader.post(f"{path}/step", {"number": "1"})
    assert "Roll back &lt;b&gt;the&lt;/b&gt; canary" in first()
    again = reader.post(f"{path}/step", {"number": "1"}, follow=True)
    assert "Nothing was ticked" in html_of(again)
    reader.post(f"{path}/step", {"number": "2"})
    assert "All 2 steps are done" in html_of(reader.get(path))
    reader.post(f"{path}/step", {"number": "1", "open": "1"})
    assert "Look at the <em>queue</em>" in first()
    for number in ("0", "3", "x", "", "9" * 5_000):
        reader.post(f"{path}/step", {"number": number})
    opened.refresh_from_db()
    assert [done["by"] for done in opened.steps_done.values()] == ["reader"] and set(opened.steps_done) == {"2"}
    said = ["1 done: Look at the queue", "2 done: Roll back <b>the</b> canary", "1 open again: Look at the queue"]
    assert [entry.text for entry in opened.entries.filter(kind="step", by="reader")] == said
    text = reader.get(f"{path}.md").content.decode()
    assert "- [ ] 1. Look at the queue\n- [x] 2. Roll back \\<b\\>the\\</b\\> canary (reader, 20" in text


def test_the_page_leads_to_it_and_rest_says_its_steps(caller: Client, opened: Incident) -> None:
    payload = str(Delivery.objects.get().__dict__)
    assert f"/incidents/{opened.pk}#runbook" in payload and "'Runbook'" in payload
    path = f"/api/v1/incidents/{opened.pk}"
    done = [actions.tick(opened.notice_key, "caller", after(1), 2) for _ in range(2)]
    assert done == [True, False]
    steps = caller.get(path).json()["steps"]
    assert [(step["text"], (step["done"] or {}).get("by")) for step in steps] == [
        ("Look at the queue", None),
        ("Roll back <b>the</b> canary", "caller"),
    ]


def test_who_may_not_act_ticks_nothing(opened: Incident, django_user_model: type[User]) -> None:
    client = logged_in(member("passer-by", "viewer"))
    assert client.post(f"/incidents/{opened.pk}/step", {"number": "1"}).status_code == 403
    page = html_of(client.get(f"/incidents/{opened.pk}"))
    assert "Look at the <em>queue</em>" in page and "/step" not in page


def test_an_objective_shows_what_was_given_over_rest(reader: Client, admin_user: User) -> None:
    caller = Client(headers={"authorization": f"Bearer {ApiToken.objects.issue(admin_user, 'tests', ['admin'])[1]}"})
    given = {
        "slug": "chat",
        "name": "Chat",
        "target": 0.99,
        "indicator": {"kind": "latency", "measure": "ttft", "threshold_ms": 900},
    }
    assert send(caller, "/api/v1/objectives", given | {"runbook_text": TEXT}).status_code in (200, 201)
    assert caller.get("/api/v1/objectives/chat").json()["runbook_text"] == TEXT
    assert "Look at the <em>queue</em>" in html_of(reader.get("/objectives/chat"))
    long = send(caller, "/api/v1/objectives", given | {"slug": "long", "runbook_text": "x" * 20_001})
    assert long.status_code == 422 and "runbook_text" in long.content.decode()


def send(caller: Client, path: str, body: dict[str, object]) -> Any:
    return caller.post(path, body, content_type="application/json")
