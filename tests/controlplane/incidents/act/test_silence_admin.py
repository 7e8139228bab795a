"""A silence that is made, changed or removed in the admin takes effect at once, as elsewhere."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident, SilenceRecord
from tests.support.incidents.alerts import alert
from tests.support.incidents.notices import pagerduty

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
ADMIN = "/admin/incidents/silencerecord/"


def form(ends_at: datetime, **values: Any) -> dict[str, Any]:
    starts_at = timezone.now() - timedelta(minutes=1)
    return {
        "matchers": '["objective=chat-ttft"]',
        "starts_at_0": f"{starts_at:%Y-%m-%d}",
        "starts_at_1": f"{starts_at:%H:%M:%S}",
        "ends_at_0": f"{ends_at:%Y-%m-%d}",
        "ends_at_1": f"{ends_at:%H:%M:%S}",
        "author": "tom",
        "reason": "load test",
        **values,
    }


def kinds() -> list[str]:
    return [entry.kind for entry in Incident.objects.get().entries.all()]


def test_the_timeline_says_at_once_what_was_silenced_and_what_no_longer_is(owner: Client) -> None:
    engine.observe([alert()], timezone.now())
    assert owner.post(f"{ADMIN}add/", form(timezone.now() + timedelta(hours=1))).status_code == 302
    assert Incident.objects.get().withheld == "silenced"
    assert kinds() == ["opened", "withheld", "withheld"]
    assert Incident.objects.get().entries.last().by == "olga"
    change = f"{ADMIN}{SilenceRecord.objects.get().pk}/change/"
    other = form(timezone.now() + timedelta(hours=1), matchers='["tier=batch"]')
    assert owner.post(change, other).status_code == 302
    assert Incident.objects.get().withheld == ""
    assert kinds() == ["opened", "withheld", "withheld", "released"]


def test_an_incident_that_was_sent_says_that_it_is_silenced_from_now_on(owner: Client) -> None:
    pagerduty("all")
    engine.observe([alert()], timezone.now())
    owner.post(f"{ADMIN}add/", form(timezone.now() + timedelta(hours=1)))
    assert kinds() == ["opened", "queued", "withheld"]


@pytest.mark.parametrize("where", ["its own page", "the list"])
def test_a_silence_that_is_removed_silences_nothing(where: str, owner: Client) -> None:
    engine.observe([alert()], timezone.now())
    owner.post(f"{ADMIN}add/", form(timezone.now() + timedelta(hours=1)))
    silence = SilenceRecord.objects.get()
    if where == "the list":
        owner.post(ADMIN, {"action": "delete_selected", "_selected_action": [silence.pk], "post": "yes"})
    else:
        owner.post(f"{ADMIN}{silence.pk}/delete/", {"post": "yes"})
    assert not SilenceRecord.objects.exists()
    assert Incident.objects.get().withheld == ""
    assert kinds()[-1] == "released"


def test_the_admin_keeps_to_the_limits_of_a_silence(owner: Client) -> None:
    page = owner.post(f"{ADMIN}add/", form(timezone.now() + timedelta(days=100)))
    assert page.status_code == 200
    assert "lasts at most 92 days" in page.content.decode()
    assert not SilenceRecord.objects.exists()
