"""What an owner sets up: no secret comes out again, and a test page goes the way of every page."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint, HookSecret
from controlplane.incidents.notify.delivery.send.claim import send_again
from controlplane.incidents.notify.delivery.send.prune import prune
from tests.support.incidents.notices import notice, pagerduty, routing_key
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.incidents.sender import StartSender
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db
ADMIN = "/admin/delivery/destination/"


def form(**values: Any) -> dict[str, Any]:
    return {
        "name": "on call",
        "kind": "pagerduty",
        "url": "",
        "secret": routing_key(7),
        "severities": ["critical", "error"],
        "fallback_after_s": "60",
        "enabled": "on",
        **values,
    }


def test_a_destination_is_added_and_its_key_is_never_seen_again(owner: Client) -> None:
    assert owner.post(f"{ADMIN}add/", form()).status_code == 302
    destination = Destination.objects.get()
    assert destination.endpoint.secret == routing_key(7)
    for path in (
        ADMIN,
        f"{ADMIN}{destination.pk}/change/",
        "/admin/delivery/delivery/",
        f"{ADMIN}{destination.pk}/history/",
    ):
        page = owner.get(path)
        assert page.status_code == 200
        assert routing_key(7) not in page.content.decode()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"kind": "webhook", "url": "https://10.0.0.5/hook"},
            "https://10.0.0.5/hook is not spoken to: 10.0.0.5 is not a public",
        ),
        (
            {"kind": "webhook", "url": "http://203.0.113.9/hook"},
            "http scheme: use https, or list the host in WEIR_OUTBOUND_ALLOW",
        ),
        ({"kind": "webhook", "url": "https://tom:pass@example.com/"}, "the address carries a user or password"),
        ({"kind": "pagerduty", "url": "https://192.168.1.1"}, "192.168.1.1 is not a public address"),
        ({"kind": "slack", "secret": "https://127.0.0.1/services/T0/secret"}, "127.0.0.1 is not spoken to"),
    ],
)
def test_an_address_that_no_page_could_go_to_is_refused_when_it_is_saved(
    values: dict[str, str], says: str, owner: Client
) -> None:
    secret = "" if values["kind"] == "webhook" else values.get("secret", routing_key(7))
    answer = owner.post(f"{ADMIN}add/", form(**{**values, "secret": secret}))
    assert answer.status_code == 200
    page = unescape(answer.content.decode())
    assert says in page
    assert "T0/secret" not in page, "a Slack webhook's path is a secret"
    assert not Destination.objects.exists()


def test_an_address_that_the_setting_opens_is_saved(owner: Client, settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": ["10.0.0.0/8"]})
    values = {"kind": "webhook", "url": "http://10.0.0.5/hook", "secret": ""}
    assert owner.post(f"{ADMIN}add/", form(**values)).status_code == 302
    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": []})
    change = f"{ADMIN}{Destination.objects.get().pk}/change/"
    assert owner.post(change, form(**values)).status_code == 200, "it is open no more"
    page = owner.post(change, {**form(**values), "enabled": ""}, follow=True).content.decode()
    assert not Destination.objects.get().enabled, "and can be disabled"
    assert "10.0.0.5/hook is not spoken to" in page


def test_a_name_that_does_not_resolve_is_saved_with_a_warning(owner: Client) -> None:
    values = {"kind": "webhook", "url": "https://pages.invalid/hook", "secret": ""}
    page = owner.post(f"{ADMIN}add/", form(**values), follow=True).content.decode()
    assert Destination.objects.exists()
    assert "pages.invalid does not resolve now" in page


def test_an_empty_secret_keeps_the_one_it_has_and_a_new_one_is_another_endpoint(owner: Client) -> None:
    owner.post(f"{ADMIN}add/", form())
    destination = Destination.objects.get()
    owner.post(f"{ADMIN}{destination.pk}/change/", form(name="renamed", secret=""))
    destination.refresh_from_db()
    assert (destination.name, destination.endpoint.secret) == ("renamed", routing_key(7))
    owner.post(f"{ADMIN}{destination.pk}/change/", form(secret=routing_key(8)))
    destination.refresh_from_db()
    assert destination.endpoint.secret == routing_key(8)
    assert {one.secret for one in Endpoint.objects.all()} == {routing_key(7), routing_key(8)}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"secret": "short"}, "32 letters and digits"),
        ({"secret": ""}, "32 letters and digits"),
        ({"kind": "slack", "secret": "T0/B0/x"}, "whole URL"),
        ({"kind": "slack", "secret": "https://hooks.slack.com/x", "url": "https://x.example"}, "Leave it empty"),
        ({"kind": "webhook", "secret": ""}, "Say where to send"),
        ({"kind": "webhook", "url": "https://x.example", "secret": "plain"}, "whsec_"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(owner: Client, wrong: dict[str, Any], says: str) -> None:
    page = owner.post(f"{ADMIN}add/", form(**wrong))
    assert page.status_code == 200
    assert says in page.content.decode()
    assert not Endpoint.objects.exists()


def test_a_signed_webhook_gets_a_secret_that_is_shown_once(owner: Client) -> None:
    page = owner.post(f"{ADMIN}add/", form(kind="webhook", url="https://x.example/hook", secret=""), follow=True)
    secret = Destination.objects.get().endpoint.secret
    assert secret.startswith("whsec_")
    assert secret.replace("+", "&#x2B;") in page.content.decode() or secret in page.content.decode()
    assert secret not in owner.get(ADMIN).content.decode()


def test_a_test_page_goes_through_the_outbox(owner: Client, stand_in: PagerDuty, start_sender: StartSender) -> None:
    destination = pagerduty("all", url=stand_in.url, severities=[])
    owner.post(ADMIN, {"action": "send_test_page", "_selected_action": [destination.pk]})
    assert Delivery.objects.count() == 2
    start_sender()
    assert stand_in.wait(lambda it: any(alert.state == "resolved" for alert in it.alerts.values()))
    assert stand_in.violations == []


def test_what_was_refused_is_sent_again_unless_something_later_was_told(
    owner: Client, stand_in: PagerDuty, start_sender: StartSender
) -> None:
    pagerduty("all", url=stand_in.url)
    enqueue(notice("trigger", 1))
    Delivery.objects.update(state="dead", settled_at=timezone.now(), error="400")
    one = Delivery.objects.get()
    owner.post("/admin/delivery/delivery/", {"action": "send_again", "_selected_action": [one.pk]})
    start_sender()
    assert stand_in.wait(lambda it: it.actions("incident-1") == ["trigger"])
    enqueue(notice("trigger", 2))
    eventually(lambda: Delivery.objects.get(sequence=2).state == "delivered")
    Delivery.objects.filter(sequence=1).update(state="dead", settled_at=timezone.now())
    assert not send_again(Delivery.objects.get(sequence=1))


def test_a_webhook_secret_goes_in_and_never_comes_out(owner: Client) -> None:
    owner.post("/admin/delivery/hooksecret/add/", {"name": "subscription", "secret": "hunter2hunter2", "enabled": "on"})
    secret = HookSecret.objects.get()
    assert secret.secret == "hunter2hunter2"
    owner.post(f"/admin/delivery/hooksecret/{secret.pk}/change/", {"name": "renamed"})
    secret.refresh_from_db()
    assert (secret.secret, secret.enabled, secret.name) == ("hunter2hunter2", False, "renamed")
    assert "hunter2" not in owner.get(f"/admin/delivery/hooksecret/{secret.pk}/change/").content.decode()


def test_what_is_long_over_is_forgotten_and_what_is_open_is_not() -> None:
    pagerduty("all")
    for key in ("over", "open"):
        enqueue(notice("trigger", 1, key=key))
    enqueue(notice("resolve", 2, key="over"))
    enqueue(notice("trigger", 1, key="fresh"))
    enqueue(notice("resolve", 2, key="fresh"))
    now = timezone.now()
    Delivery.objects.update(state="delivered", settled_at=now - timedelta(days=31))
    Delivery.objects.filter(key="fresh").update(settled_at=now)
    assert prune(now - timedelta(days=30)) == 2
    assert set(Delivery.objects.values_list("key", flat=True)) == {"open", "fresh"}
