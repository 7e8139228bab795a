"""A page that no destination takes, accepts, or was sent: it is never recorded as told, and each place that can say so does."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.fleet.models import Team
from controlplane.incidents.act import actions
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Entry, Incident, SilenceRecord
from controlplane.incidents.notify.delivery.health.heartbeat import HeartbeatThread
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Heartbeat
from controlplane.incidents.report import unnotified
from tests.support.incidents.alerts import NOW, TTFT, UP, after, alert, outage
from tests.support.incidents.notices import pagerduty
from tests.support.slo.ticks import ticked

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
NO_CRITICAL = "nobody was notified: no enabled destination takes critical pages"


def sent() -> list[tuple[str, str]]:
    rows = Delivery.objects.order_by("sequence", "id").select_related("destination")
    return [(one.action, str(one.destination)) for one in rows]


def accept() -> None:
    Delivery.objects.update(state="delivered", settled_at=timezone.now())


def test_a_team_whose_destination_takes_warnings_only_is_paged_through_the_defaults() -> None:
    team = Team.objects.create(name="serving")
    pagerduty("serving, warnings", 1, team=team, severities=["warning"])
    pagerduty("everybody", 2)
    engine.observe([alert()], NOW)
    assert sent() == [("trigger", "everybody")]
    assert Incident.objects.get().queued_as == "page"


@pytest.mark.parametrize("exists", ["no destination", "one for warnings", "a disabled one"])
def test_what_nobody_takes_is_not_told_and_the_incident_says_why_and_what_to_do(exists: str, reader: Client) -> None:
    if exists != "no destination":
        pagerduty(
            "all",
            severities=["warning"] if exists == "one for warnings" else ["critical"],
            enabled=exists == "one for warnings",
        )
    for minute in range(3):
        engine.observe([alert(at=after(minute))], after(minute))
    incident = Incident.objects.get()
    assert (incident.queued_as, incident.withheld) == ("", "nobody")
    assert [one.kind for one in incident.entries.all()] == ["opened", "withheld"], "said once, and not at each tick"
    assert incident.entries.last().text.lower().startswith(NO_CRITICAL)
    page = reader.get(f"/incidents/{incident.pk}").content.decode()
    assert NO_CRITICAL in page.lower()
    assert "Admin → Alert → Destinations" in page
    assert "→ told" not in page
    assert NO_CRITICAL in reader.get("/incidents").content.decode().lower()
    assert f"{incident.pk}" in reader.get("/api/v1/incidents").content.decode()


def test_it_is_sent_as_soon_as_a_destination_takes_it() -> None:
    warnings = pagerduty("all", severities=["warning"])
    engine.observe([alert()], NOW)
    warnings.severities = ["warning", "critical"]
    warnings.save()
    engine.observe([alert(at=after(1))], after(1))
    incident = Incident.objects.get()
    assert (incident.queued_as, incident.withheld) == ("page", "")
    assert sent() == [("trigger", "all")]


def test_a_ticket_that_becomes_a_page_nobody_takes_stays_told_as_a_ticket_alone() -> None:
    pagerduty("all", severities=["warning"])
    engine.observe([alert(severity="ticket", burn=4)], NOW)
    engine.observe([alert(at=after(1))], after(1))
    incident = Incident.objects.get()
    assert (incident.severity, incident.queued_as, incident.withheld) == ("page", "ticket", "nobody")
    assert sent() == [("trigger", "all")], "the ticket is not resolved outside for a page that goes nowhere"


def test_an_outage_that_reached_nobody_holds_back_no_latency_page() -> None:
    pagerduty("serving", 1, team=Team.objects.create(name="serving"))
    Destination.objects.update(enabled=False)
    engine.observe([outage(), alert()], NOW)
    assert {one.withheld for one in Incident.objects.all()} == {"nobody"}


def banner(page: str) -> bool:
    return "Nobody was notified of" in page


@pytest.mark.parametrize("path", ["/", "/deliveries"])
def test_every_page_has_a_banner_while_a_page_reached_nobody(path: str, reader: Client) -> None:
    assert not banner(reader.get(path).content.decode())
    engine.observe([alert(), alert(UP, severity="ticket", burn=4)], NOW)
    found = reader.get(path).content.decode()
    assert "Nobody was notified of 1 open page" in found
    assert f'href="/incidents/{Incident.objects.get(severity="page").pk}"' in found
    assert NO_CRITICAL.removeprefix("nobody was notified: ") in found, "its heading says that nobody was"


def test_the_banner_goes_when_somebody_is_on_it(reader: Client) -> None:
    engine.observe([alert()], NOW)
    actions.acknowledge(Incident.objects.get().notice_key, "olga", NOW)
    assert not banner(reader.get("/incidents").content.decode())


def test_a_page_that_every_destination_refused_reached_nobody(reader: Client) -> None:
    pagerduty("all")
    engine.observe([alert()], NOW)
    assert unnotified.pages(timezone.now()) == [], "it is on its way"
    Delivery.objects.update(state="dead", settled_at=timezone.now(), error="400 invalid routing key")
    (found,) = unnotified.pages(timezone.now())
    assert found.why.startswith("all refused it (400 invalid routing key)")
    page = reader.get(f"/incidents/{found.incident.pk}").content.decode()
    assert banner(page)
    assert "400 invalid routing key" in page


def test_a_page_that_nobody_accepts_for_long_has_reached_nobody_yet() -> None:
    pagerduty("all")
    engine.observe([alert()], NOW)
    Delivery.objects.update(enqueued_at=timezone.now() - timedelta(minutes=3), error="503 busy", attempts=9)
    (found,) = unnotified.pages(timezone.now())
    assert found.why == "all has not accepted it for 3 min (503 busy). Weir keeps trying"
    pagerduty("second", 2)
    engine.observe([alert(at=after(1))], after(1))
    Delivery.objects.filter(destination__name="second").update(state="delivered", settled_at=timezone.now())
    assert unnotified.pages(timezone.now()) == [], "another has accepted it"


def test_the_dead_man_service_is_not_told_that_all_is_well_while_a_page_reached_nobody(pinged: list[str]) -> None:
    ticked(timezone.now())
    for name in (Heartbeat.SENDER, Heartbeat.COMPONENTS):
        Heartbeat.objects.create(name=name, at=timezone.now())
    engine.observe([alert()], NOW)
    watch = HeartbeatThread(unnotified.sentences)
    watch.ping_when_due()
    assert pinged == []
    pagerduty("all")
    engine.observe([alert(at=after(1))], after(1))
    accept()
    watch.ping_when_due()
    assert pinged == ["https://elsewhere.example/ping"]


def test_an_open_page_is_sent_to_a_destination_that_is_new() -> None:
    pagerduty("first", 1)
    engine.observe([alert()], NOW)
    accept()
    pagerduty("second", 2)
    pagerduty("warnings", 3, severities=["warning"])
    for minute in (1, 2):
        engine.observe([alert(at=after(minute))], after(minute))
    assert sent() == [("trigger", "first"), ("trigger", "second")]
    said = Incident.objects.get().entries.filter(kind=Entry.Kind.QUEUED).last()
    assert said is not None
    assert said.text == "As a page, for second: new, enabled or changed since it opened."
    accept()
    for minute in range(3, 7):
        engine.observe([alert(state="quiet")], after(minute))
    assert sent()[2:] == [("resolve", "first"), ("resolve", "second")]


@pytest.mark.parametrize("change", ["enabled", "takes it now", "another team's until now", "another address"])
def test_an_open_page_is_sent_to_a_destination_that_takes_it_only_since(change: str) -> None:
    pagerduty("first", 1)
    team = Team.objects.create(name="elsewhere")
    second = pagerduty("second", 2, enabled=change != "enabled", team=team if "team" in change else None)
    second.severities = ["warning"] if change == "takes it now" else ["critical"]
    if change == "another address":
        second.enabled = False
    second.save()
    engine.observe([alert()], NOW)
    assert sent() == [("trigger", "first")]
    second.enabled, second.team, second.severities = True, None, ["critical"]
    if change == "another address":
        second.point_at("", "9" * 32)
    second.save()
    engine.observe([alert(at=after(1))], after(1))
    assert sent() == [("trigger", "first"), ("trigger", "second")]


def test_what_is_acknowledged_or_silenced_is_not_sent_to_a_new_destination() -> None:
    pagerduty("first", 1)
    engine.observe([alert(), alert(UP)], NOW)
    actions.acknowledge(Incident.objects.get(objective="chat-ttft").notice_key, "olga", NOW)
    SilenceRecord.objects.create(
        matchers=["objective=chat-up"], starts_at=NOW, ends_at=after(60), author="tom", reason="load test"
    )
    pagerduty("second", 2)
    engine.observe([alert(at=after(1)), alert(UP, at=after(1))], after(1))
    assert {name for _, name in sent()} == {"first"}
    assert TTFT.slug == "chat-ttft"
