"""On pages, only who is on call acts on incidents and silences; whoever else is logged in only reads."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.incidents.act import silencing
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident, SilenceRecord
from tests.support.incidents.alerts import NOW, alert

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]
SILENCE = {"matchers": "tier=batch", "length": "1h", "reason": "load test"}


@pytest.fixture
def onlooker() -> Client:
    """Logged in, and in no group."""
    client = Client()
    client.force_login(User.objects.create_user("nora"))
    return client


@pytest.mark.parametrize("action", ["acknowledge", "resolve", "reopen", "note"])
def test_who_is_not_on_call_does_not_act_on_an_incident(onlooker: Client, action: str) -> None:
    engine.observe([alert()], NOW)
    incident = Incident.objects.get()
    before = incident.entries.count()
    answer = onlooker.post(f"/incidents/{incident.pk}/{action}", {"confirmed": "1", "note": "mine"})
    assert answer.status_code == 403
    incident.refresh_from_db()
    assert (incident.status, incident.entries.count()) == ("open", before)
    assert onlooker.get(f"/incidents/{incident.pk}").status_code == 200


def test_who_is_not_on_call_neither_makes_nor_ends_a_silence(onlooker: Client) -> None:
    assert onlooker.post("/silences", SILENCE).status_code == 403
    assert not SilenceRecord.objects.exists()
    ends = timezone.now() + timedelta(hours=1)
    silencing.add(["severity=ticket"], timezone.now(), ends, "tom", "load test")
    silence = SilenceRecord.objects.get()
    assert onlooker.post(f"/silences/{silence.pk}/end").status_code == 403
    silence.refresh_from_db()
    assert silence.ends_at == ends
    assert onlooker.get("/silences").status_code == 200
