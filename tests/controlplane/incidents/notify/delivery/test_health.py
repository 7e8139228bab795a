"""Delivery's own objective: what is late, refused or sent by nobody is said wherever somebody looks."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families as prometheus

from controlplane.core.encryption import Keys
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.health.health import Figures, health, judge
from controlplane.incidents.notify.delivery.models import Delivery, Heartbeat
from tests.support.incidents.notices import notice, pagerduty, routing_key

pytestmark = pytest.mark.django_db
WELL = Figures(0, None, 10, 10, 0, 2.0, 1, accepted_age_s=180.0, accepted_by="all")
ACCEPTED = "The newest page that was accepted: 3 min ago, by all."


def figures(**values: float | str | tuple[str, ...] | None) -> Figures:
    return Figures(**{**{name: getattr(WELL, name) for name in Figures.__slots__}, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "state", "says"),
    [
        (WELL, "up", ACCEPTED),
        (figures(pending=3, oldest_pending_age_s=29.0), "up", ACCEPTED),
        (
            figures(pending=3, oldest_pending_age_s=95.0),
            "degraded",
            "3 pages are not delivered, the oldest for 95 s.",
        ),
        (
            figures(refused_1d=1, refused_age_s=7200.0),
            "degraded",
            "1 page was refused in the last day, the newest 2 h ago. Weir does not send them again by itself.",
        ),
        (
            figures(accepted_age_s=None, accepted_by=""),
            "unknown",
            "Whether pages arrive is not known: no destination has accepted one yet. Send a test page to find out.",
        ),
        (figures(takes_critical=False), "degraded", "No default destination takes critical pages"),
        (figures(sender_age_s=31.0), "degraded", "the worker's sender was last seen 31 s ago"),
        (figures(sender_age_s=31.0, pending=1, oldest_pending_age_s=1.0), "down", "Nobody sends pages"),
        (
            figures(sender_age_s=None),
            "unknown",
            "has not been seen. Start the worker; where it runs, its log says why.",
        ),
        (
            figures(unreadable=("it cannot be decrypted",)),
            "degraded",
            "1 of the stored secrets: it cannot be decrypted.",
        ),
        (figures(destinations=0), "unknown", "No destination is enabled: nobody is notified of a page."),
    ],
)
def test_the_judgement(found: Figures, state: str, says: str) -> None:
    judged = judge(found)
    assert judged.state == state
    assert says in judged.detail
    assert (judged.detail == ACCEPTED) == (state == "up")
    assert "accepted" in judged.detail, "what happened last is always said"


def test_a_system_that_never_sent_a_page_does_not_say_that_pages_are_delivered(teammate: Client) -> None:
    Heartbeat.objects.create(name=Heartbeat.SENDER, at=timezone.now())
    pagerduty("all")
    page = teammate.get("/deliveries").content.decode()
    assert "Pages are delivered" not in page
    assert "Whether pages arrive is not known: no destination has accepted one yet." in page
    enqueue(notice("trigger", 1))
    Delivery.objects.update(state="delivered", settled_at=timezone.now() - timedelta(hours=3))
    assert "The newest page that was accepted: 3 h ago, by all." in teammate.get("/deliveries").content.decode()


def test_a_refused_page_counts_against_the_share() -> None:
    assert judge(figures(delivered_1d=3, delivered_within_30s_1d=3, refused_1d=1)).share_within_30s_1d == 0.75
    assert judge(figures(delivered_1d=0, delivered_within_30s_1d=0)).share_within_30s_1d is None


def test_the_figures_are_the_outbox_s() -> None:
    now = timezone.now()
    pagerduty("all")
    for number, (state, took_s) in enumerate([("delivered", 1), ("delivered", 31), ("dead", 1), ("delivered", 1)]):
        enqueue(notice("trigger", number))
        ago = timedelta(days=2) if number == 3 else timedelta(minutes=1)
        Delivery.objects.filter(sequence=number).update(
            state=state, enqueued_at=now - ago - timedelta(seconds=took_s), settled_at=now - ago
        )
    enqueue(notice("trigger", 9))
    Delivery.objects.filter(sequence=9).update(enqueued_at=now - timedelta(seconds=40))
    Heartbeat.objects.create(name=Heartbeat.SENDER, at=now - timedelta(seconds=3))
    found = health(now).figures
    assert found == Figures(1, 40.0, 2, 1, 1, 3.0, 1, True, 60.0, "all", 60.0)


@pytest.fixture
def stuck() -> Iterator[None]:
    pagerduty("all")
    enqueue(notice("trigger", 1))
    Delivery.objects.update(enqueued_at=timezone.now() - timedelta(hours=2, minutes=5))
    yield


def test_readiness_says_that_nobody_sends_pages_and_stays_ready(stuck: None, outsider: Client) -> None:
    response = outsider.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"ready": True, "paging": "down"})


def test_readiness_decrypts_nothing_and_asks_the_database_once_a_second_however_often_strangers_ask(
    stuck: None, outsider: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(Keys, "open", lambda self, sealed: opened.append(sealed))
    now_s = 0.0
    monkeypatch.setattr("controlplane.web.health._answers.clock", lambda: now_s)
    assert outsider.get("/readyz").json()["paging"] == "down"
    now_s = 0.9
    with django_assert_num_queries(0):
        for _ in range(20):
            assert outsider.get("/readyz").json()["paging"] == "down"
    Delivery.objects.all().delete()
    now_s = 1.1
    assert outsider.get("/readyz").json() == {"ready": True}
    assert opened == []


def test_metrics_say_it(stuck: None, owner: Client) -> None:
    found = {
        sample.name: sample.value
        for family in prometheus(owner.get("/metrics").content.decode())
        for sample in family.samples
    }
    assert found["weir_pages_pending"] == 1
    assert found["weir_pages_oldest_pending_seconds"] >= 7500
    assert "weir_pages_sender_age_seconds" not in found


def test_the_overview_says_it(stuck: None, away: None, owner: Client) -> None:
    page = owner.get("/").content.decode()
    assert "Nobody sends pages" in page
    assert "1 page is not delivered, the oldest for 2.1 h" in page


def test_the_api_says_it_with_each_delivery_and_no_secret(stuck: None, owner: Client) -> None:
    found = owner.get("/api/v1/deliveries").json()
    assert found["health"]["state"] == "down"
    (row,) = found["rows"]
    assert (row["key"], row["action"], row["destination"], row["state"]) == ("incident-1", "trigger", "all", "pending")
    assert routing_key(1) not in owner.get("/api/v1/deliveries").content.decode()
    assert routing_key(1) not in owner.get("/api/v1/destinations").content.decode()
    assert owner.get("/api/v1/destinations").json()["rows"][0]["name"] == "all"


def test_deliveries_are_filtered_and_paged(owner: Client) -> None:
    pagerduty("all")
    for number in range(5):
        enqueue(notice("trigger", 1, key=f"incident-{number}"))
    first = owner.get("/api/v1/deliveries?limit=3").json()
    second = owner.get(f"/api/v1/deliveries?limit=3&before={first['next_before']}").json()
    assert [row["key"] for row in first["rows"] + second["rows"]] == [
        f"incident-{number}" for number in range(4, -1, -1)
    ]
    assert second["next_before"] is None
    assert len(owner.get("/api/v1/deliveries?key=incident-1&key=incident-2").json()["rows"]) == 2
    assert owner.get("/api/v1/deliveries?state=delivered").json()["rows"] == []
    assert owner.get("/api/v1/deliveries?keys=incident-1").status_code == 422
    assert User.objects.exists()


def test_the_page_lists_each_delivery_with_its_reason_and_its_incident(stuck: None, teammate: Client) -> None:
    incident = Incident.objects.create(
        alert_key="premium", notice_key="incident-1", objective="premium", group="g", opened_at=timezone.now()
    )
    Delivery.objects.update(attempts=3, error="503 busy")
    page = teammate.get("/deliveries").content.decode()
    assert "503 busy" in page
    assert f'href="/incidents/{incident.pk}"' in page
    assert "1 page is not delivered" in page
    assert routing_key(1) not in page
    assert "incident-1 trigger" not in teammate.get("/deliveries?state=delivered").content.decode()
    assert teammate.get("/deliveries?before=x").status_code == 400


def test_a_long_list_is_paged(teammate: Client) -> None:
    pagerduty("all")
    for number in range(60):
        enqueue(notice("trigger", 1, key=f"incident-{number}"))
    first = teammate.get("/deliveries?action=trigger").content.decode()
    (following,) = re.findall(r'href="(/deliveries\?action=trigger&amp;before=\d+)"', first)
    second = teammate.get(following.replace("&amp;", "&")).content.decode()
    assert (first.count("<tr data-row"), second.count("<tr data-row")) == (50, 10)
