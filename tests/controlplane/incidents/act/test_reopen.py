"""Taking back that somebody resolved an incident."""

from datetime import timedelta

import pytest

from controlplane.incidents.act import actions
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.incidents.report import standing
from tests.support.incidents.alerts import NOW, after, alert
from tests.support.incidents.notices import pagerduty

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]


@pytest.fixture
def resolved() -> Incident:
    """By a person, a minute after it opened, while it fires."""
    pagerduty("all")
    engine.observe([alert()], NOW)
    incident = Incident.objects.get()
    actions.acknowledge(incident.notice_key, "olga", after(0.5))
    actions.resolve(incident.notice_key, "tom", after(1))
    incident.refresh_from_db()
    return incident


def sent() -> list[tuple[str, int]]:
    return list(Delivery.objects.order_by("id").values_list("action", "sequence"))


def test_it_is_open_again_and_whoever_was_told_of_its_end_is_told_that_it_is_not_over(resolved: Incident) -> None:
    assert actions.reopen(resolved.notice_key, "tom", after(2))
    incident = Incident.objects.get()
    assert (incident.status, incident.queued_as, incident.acknowledged_by, incident.cool_until) == (
        "open",
        "",
        "",
        None,
    )
    assert incident.entries.last().kind == "reopened"
    engine.observe([alert(at=after(3))], after(3))
    incident = Incident.objects.get()
    assert incident.queued_as == "page"
    assert sent() == [("trigger", 1), ("acknowledge", 2), ("resolve", 3), ("trigger", 1)]
    first, *_, last = Delivery.objects.order_by("id")
    assert (first.key, last.key) == (incident.earlier_keys[0], incident.notice_key)
    assert first.key != last.key, "what was resolved outside stays resolved there"


def test_while_it_still_fires_it_can_be_opened_until_the_cool_down_is_over(resolved: Incident) -> None:
    engine.observe([alert(at=after(10))], after(10))
    assert actions.why_not_reopened(resolved, after(15.9)) == ""
    assert actions.why_not_reopened(resolved, after(16.1)).startswith("It was resolved too long ago")


def test_what_was_quiet_since_can_be_opened_for_five_minutes(resolved: Incident) -> None:
    engine.observe([alert(state="quiet", at=after(2))], after(2))
    resolved.refresh_from_db()
    assert actions.why_not_reopened(resolved, after(5.9)) == ""
    assert actions.why_not_reopened(resolved, after(6.1)).startswith("It was resolved too long ago")
    assert actions.reopen(resolved.notice_key, "tom", after(4))
    for minute in (5, 6, 7, 8):
        engine.observe([alert(state="quiet", at=after(minute))], after(minute))
    assert Incident.objects.get().resolved_by == "weir", "it is over by itself, for it does not fire"


def test_where_another_is_open_for_the_same_the_first_stays_resolved(resolved: Incident) -> None:
    engine.observe([alert(state="quiet", at=after(1.5))], after(1.5))
    engine.observe([alert(at=after(2))], after(2))
    second = Incident.objects.exclude(pk=resolved.pk).get()
    assert actions.why_not_reopened(resolved, after(3)) == f"#{second.pk} is open for the same."
    assert not actions.reopen(resolved.notice_key, "tom", after(3))


def test_what_resolved_by_itself_is_not_opened() -> None:
    engine.observe([alert()], NOW)
    for minute in (1, 2, 3, 4):
        engine.observe([alert(state="quiet", at=after(minute))], after(minute))
    incident = Incident.objects.get()
    assert not actions.reopen(incident.notice_key, "tom", NOW + timedelta(minutes=4, seconds=30))
    assert actions.why_not_reopened(incident, after(5)).startswith("It resolved by itself")


def test_what_was_told_before_it_was_opened_again_is_said_once_it_is_over(resolved: Incident) -> None:
    Delivery.objects.update(state="delivered", settled_at=after(1))
    assert actions.reopen(resolved.notice_key, "tom", after(2))
    incident = Incident.objects.get()
    assert standing.standings([incident], after(2))[incident.pk].kind == "waiting"
    actions.resolve(incident.notice_key, "tom", after(3))
    incident = Incident.objects.get()
    assert standing.standings([incident], after(3))[incident.pk].said.startswith("Delivered to all at")
