"""A silence takes effect, and shows, at once; what it held back is sent at the next tick after it."""

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import StoredObjective
from tests.support.incidents.alerts import UP, alert
from tests.support.incidents.notices import pagerduty

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
FORM = {"matchers": "objective=chat-ttft", "length": "2h", "reason": "load test"}


def shown(reader: Client, incident: Incident) -> tuple[str, str]:
    return tuple(reader.get(path).content.decode() for path in (f"/incidents/{incident.pk}", "/incidents"))  # type: ignore[return-value]


def test_a_silence_on_an_incident_that_was_told_shows_at_once_where_it_was_made(reader: Client) -> None:
    pagerduty("all")
    engine.observe([alert(), alert(UP)], timezone.now())
    incident = Incident.objects.get(objective="chat-ttft")
    answer = reader.post("/silences", {**FORM, "next": f"/incidents/{incident.pk}"}, follow=True)
    assert answer.redirect_chain == [(f"/incidents/{incident.pk}", 302)]
    page = answer.content.decode()
    assert "it covers 1 open incident" in page
    assert "silenced by reader until" in page
    assert "load test. Its destinations will be notified only when it resolves." in page
    assert "silenced by reader until" in shown(reader, incident)[1]
    assert "1 open incident</td>" in reader.get("/silences").content.decode()
    incident.refresh_from_db()
    assert (incident.queued_as, incident.withheld) == ("page", ""), "what was told stays told"


def test_a_silence_on_an_incident_that_nobody_was_told_of_is_why_and_its_end_is_followed_by_a_page(
    reader: Client,
) -> None:
    engine.observe([alert()], timezone.now())
    incident = Incident.objects.get()
    assert incident.withheld == "nobody"
    reader.post("/silences", FORM)
    incident.refresh_from_db()
    assert incident.withheld == "silenced"
    for page in shown(reader, incident):
        assert "Nobody is notified: silenced by reader until" in page
        assert "Nobody was notified of" not in page, "that is somebody's decision, and no banner"
    pagerduty("all")
    reader.post(f"/silences/{SilenceRecord.objects.get().pk}/end")
    for page in shown(reader, incident):
        assert "Not sent yet: the next tick sends it if it still fires" in page
        assert "Nobody is notified: silenced" not in page.partition('aria-labelledby="timeline"')[0]
    assert not Delivery.objects.exists()
    engine.observe([alert(at=timezone.now())], timezone.now())
    assert [one.action for one in Delivery.objects.all()] == ["trigger"]
    said = [one.kind for one in incident.entries.all()]
    assert said == ["opened", "withheld", "withheld", "released", "queued"]


def test_a_silence_that_ends_by_itself_is_not_shown_a_moment_longer(reader: Client) -> None:
    engine.observe([alert()], timezone.now())
    reader.post("/silences", FORM)
    SilenceRecord.objects.update(
        starts_at=timezone.now() - timedelta(hours=2), ends_at=timezone.now() - timedelta(seconds=1)
    )
    for page in shown(reader, Incident.objects.get()):
        assert "The silence has ended: it is sent at the next tick if it still fires" in page


def test_of_two_silences_the_other_holds_when_one_ends(reader: Client) -> None:
    engine.observe([alert()], timezone.now())
    reader.post("/silences", {**FORM, "length": "4h"})
    reader.post("/silences", FORM)
    longer, shorter = SilenceRecord.objects.order_by("-ends_at")
    reader.post(f"/silences/{longer.pk}/end")
    incident = Incident.objects.get()
    assert (incident.withheld, incident.withheld_by) == ("silenced", str(shorter.pk))


@pytest.mark.parametrize(
    ("matchers", "said"),
    [
        ("objective=chat-tttf", "objective=chat-tttf is nothing that there is: did you mean chat-ttft?"),
        ("pool=nowhere-*", "pool=nowhere-* is nothing that there is: there is none."),
        ("severity!=tickets", "did you mean ticket?"),
        (
            "objective=chat-ttft\nobjective=up",
            "objective is given twice, and nothing has two: make a silence for each.",
        ),
    ],
)
def test_a_typing_error_is_refused_and_stays_in_the_form(reader: Client, matchers: str, said: str) -> None:
    engine.observe([alert(), alert(UP)], timezone.now())
    answer = reader.post("/silences", {**FORM, "matchers": matchers})
    assert answer.status_code == 422
    page = html.unescape(answer.content.decode())
    assert said in page and matchers in page
    assert not SilenceRecord.objects.exists()


def test_what_there_is_can_be_chosen_and_a_link_has_chosen_already(reader: Client) -> None:
    engine.observe([alert(), alert(UP)], timezone.now())
    page = " ".join(
        reader.get("/silences?matcher=objective=chat-ttft&matcher=label.service=search").content.decode().split()
    )
    assert re.search(r'<select name="objective">.*<option selected>chat-ttft</option>', page)
    assert re.search(r"<textarea[^>]*>label.service=search</textarea>", page)
    reader.post("/silences", {"objective": "chat-ttft", "severity": "page", "length": "2h", "reason": "load test"})
    assert SilenceRecord.objects.get().matchers == ["objective=chat-ttft", "severity=page"]


def test_overview_and_objective_say_what_is_silenced_and_until_when(reader: Client) -> None:
    row = StoredObjective()
    row.take(Objective("chat-ttft", "First token", Latency("ttft", 300), 0.9, {"model": "chat-large"}, owner="serving"))
    row.save()
    reader.post("/silences", {**FORM, "matchers": "objective=chat-ttft\nseverity=page"})
    until = f"{SilenceRecord.objects.get().ends_at:%Y-%m-%d %H:%M} UTC"
    objective, overview = (
        " ".join(reader.get(path).content.decode().split()) for path in ("/objectives/chat-ttft", "/")
    )
    assert f"Pages are silenced by reader until {until}: load test." in objective
    assert "tickets are silenced" not in objective.lower()
    assert f'objective=chat-ttft, severity=page</a> <span class="muted">until {until} by reader: load test' in overview
