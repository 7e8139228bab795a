"""What people do in PagerDuty shows here: signed, once, in whatever order it comes."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from controlplane.incidents.act import actions
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery.models import HookEvent, HookSecret

pytestmark = pytest.mark.django_db
SECRET = "a-secret-that-pagerduty-showed-once"
KEY = "weir-premium-1"


@pytest.fixture(autouse=True)
def secret() -> HookSecret:
    return HookSecret.objects.create(name="subscription", secret=SECRET)


@pytest.fixture(autouse=True)
def incident() -> Incident:
    return Incident.objects.create(
        alert_key="premium", notice_key=KEY, objective="premium", group="g", severity="page", opened_at=timezone.now()
    )


def event(kind: str, number: int = 1, at: datetime | None = None, **data: Any) -> dict[str, Any]:
    return {
        "event": {
            "id": f"event-{number}",
            "event_type": kind,
            "resource_type": "incident",
            "occurred_at": (at or timezone.now()).isoformat().replace("+00:00", "Z"),
            "agent": {"id": "P1", "type": "user_reference", "summary": "Ann Oncall"},
            "client": None,
            "data": {"id": "Q1", "type": "incident", "incident_key": KEY, "status": "triggered", **data},
        }
    }


def signature(body: bytes, secret: str = SECRET) -> str:
    return "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def send(document: Any, webhook: str = "", signed: str | None = None, client: Client | None = None) -> HttpResponse:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {"X-PagerDuty-Signature": signature(body) if signed is None else signed, "X-Webhook-Id": webhook}
    found: HttpResponse = (client or Client(enforce_csrf_checks=True)).post(
        "/hooks/pagerduty", body, content_type="application/json", headers=headers
    )
    return found


def status() -> tuple[str, list[str]]:
    found = Incident.objects.get(notice_key=KEY)
    return found.status, [f"{one.kind} {one.by} {one.via}".strip() for one in found.entries.all()]


def test_an_acknowledge_there_is_an_acknowledge_here() -> None:
    assert send(event("incident.acknowledged")).status_code == 202
    assert status() == ("acknowledged", ["acknowledged Ann Oncall pagerduty"])


@pytest.mark.parametrize("here", [False, True])
def test_an_acknowledge_that_is_undone_there_is_undone_here(here: bool) -> None:
    """It stayed acknowledged here, and no banner named it, while PagerDuty called the next person."""
    now = timezone.now()
    if here:
        actions.acknowledge(KEY, "bob", now - timedelta(minutes=30))
    else:
        send(event("incident.acknowledged", 1, now - timedelta(minutes=30)))
    send(event("incident.unacknowledged", 2, now - timedelta(minutes=1)))
    found = Incident.objects.get(notice_key=KEY)
    assert (found.status, found.acknowledged_at, found.acknowledged_by) == ("open", None, "")
    assert found.entries.last().text == "No longer acknowledged in PagerDuty."
    send(event("incident.acknowledged", 3, now))
    assert status()[0] == "acknowledged"


def test_an_acknowledge_and_what_undoes_it_count_by_when_they_were() -> None:
    now = timezone.now()
    send(event("incident.unacknowledged", 2, now - timedelta(minutes=1)))
    send(event("incident.acknowledged", 1, now - timedelta(minutes=30)))
    assert status()[0] == "open"
    actions.acknowledge(KEY, "bob", now)
    send(event("incident.unacknowledged", 3, now - timedelta(seconds=1)))
    assert status()[0] == "acknowledged", "bob has acknowledged it since"


def test_a_resolve_there_is_a_resolve_here_whatever_comes_after_it() -> None:
    send(event("incident.resolved", 2))
    send(event("incident.acknowledged", 1))
    assert status() == ("resolved", ["resolved Ann Oncall pagerduty"])


def test_an_event_counts_once_however_often_and_under_whatever_id_it_comes() -> None:
    once = event("incident.annotated", type="incident_note", content="looking", incident={"id": "Q1"})
    send(event("incident.triggered", 9))
    for webhook in ("w1", "w1", "w2", ""):
        assert send(once, webhook).status_code == 202
    assert status() == ("open", ["note Ann Oncall"])
    assert (
        send(
            event("incident.annotated", 3, type="incident_note", content="again", incident={"id": "Q1"}), "w1"
        ).status_code
        == 202
    )
    assert len(status()[1]) == 1, "the same webhook id is a resend, whatever it holds"


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("pagey.ping", {}),
        ("incident.priority_updated", {}),
        ("service.updated", {}),
        ("incident.from_2031", {}),
        ("incident.resolved", {"incident_key": "somebody-else"}),
        ("incident.resolved", {"at": datetime(2020, 1, 1, tzinfo=UTC)}),
    ],
)
def test_what_is_old_not_ours_or_means_nothing_to_us_is_taken_and_ignored(kind: str, about: dict[str, Any]) -> None:
    assert send(event(kind, **about)).status_code == 202
    assert status() == ("open", [])
    assert "at" not in about or HookEvent.objects.get().outcome == "too old"


@pytest.mark.parametrize(
    "signed",
    ["", "v1=", "v1=" + "0" * 64, "v2=" + "0" * 64, "v1=é", ",".join(["v1=" + "0" * 64] * 1_000)],
)
def test_what_is_not_signed_by_pagerduty_changes_nothing(signed: str) -> None:
    assert send(event("incident.resolved"), signed=signed).status_code == 401
    assert status() == ("open", [])
    assert not HookEvent.objects.exists()


def test_a_changed_body_is_not_what_was_signed_and_without_a_secret_nobody_gets_in() -> None:
    body = json.dumps(event("incident.acknowledged")).encode()
    assert send(body.replace(b"acknowledged", b"resolved"), signed=signature(body)).status_code == 401
    HookSecret.objects.all().delete()
    body = json.dumps(event("incident.resolved")).encode()
    assert send(body, signed=signature(body, "")).status_code == 401


def test_a_secret_is_rotated_without_a_gap() -> None:
    HookSecret.objects.create(name="next", secret="the-next-one")
    body = json.dumps(event("incident.acknowledged")).encode()
    both = f"{signature(body, 'unknown')},{signature(body, 'the-next-one')}"
    assert send(body, signed=both).status_code == 202
    HookSecret.objects.filter(name="subscription").update(enabled=False)
    assert send(event("incident.resolved", 2)).status_code == 401
    assert status()[0] == "acknowledged"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"not json", b'{"event": {"id": 1}}', b'{"event": {"id": "a", "event_type": "b"}}']
)
def test_what_is_no_event_is_refused_even_when_it_is_signed(body: bytes) -> None:
    assert send(body).status_code == 400


def test_a_body_without_end_is_refused_and_only_post_is_answered(outsider: Client) -> None:
    assert send(b" " * (1 << 20) + b"{}").status_code == 413
    assert outsider.get("/hooks/pagerduty").status_code == 405


def test_no_event_is_in_the_future(incident: Incident) -> None:
    send(event("incident.acknowledged", at=datetime(2099, 1, 1, tzinfo=UTC)))
    incident.refresh_from_db()
    assert incident.acknowledged_at
    assert incident.acknowledged_at <= timezone.now()
