"""From the outbox to a PagerDuty that takes nothing wrong: in order, once for people, whatever fails."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from django.utils import timezone
from pytest_django import Settings

from controlplane.audit.core.differences import HIDDEN
from controlplane.audit.models import Entry
from controlplane.fleet.models import GatewayKey, Team, Tenant, Tier
from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.destinations import webhook
from controlplane.incidents.notify.delivery.forms import DestinationForm
from controlplane.incidents.notify.delivery.models import Delivery, Destination
from tests.support.http_server import ThreadedServer
from tests.support.incidents.notices import change, notice, pagerduty, routing_key
from tests.support.incidents.pagerduty import PagerDuty, Storm
from tests.support.incidents.sender import StartSender
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def settled(*keys: str) -> Callable[[], bool]:
    return lambda: not Delivery.objects.filter(state="pending", key__in=keys or ["incident-1"]).exists()


def states(key: str = "incident-1") -> list[tuple[str, str]]:
    return list(Delivery.objects.filter(key=key).order_by("sequence", "id").values_list("action", "state"))


def test_an_incident_is_told_in_order_with_what_a_person_needs(stand_in: PagerDuty, start_sender: StartSender) -> None:
    pagerduty("all", url=stand_in.url)
    enqueue(notice("trigger", 1, details={"stage": "queue"}, component="chat"))
    enqueue(notice("acknowledge", 2))
    enqueue(notice("resolve", 3))
    start_sender()
    eventually(settled())
    assert stand_in.actions("incident-1") == ["trigger", "acknowledge", "resolve"]
    assert stand_in.violations == []
    _, event = stand_in.alert("incident-1").taken[0]
    assert event["payload"]["custom_details"] == {"stage": "queue"}
    assert event["routing_key"] == routing_key(1)


def test_a_change_is_told_as_a_change_event(stand_in: PagerDuty, start_sender: StartSender) -> None:
    pagerduty("all", url=stand_in.url)
    enqueue(change(details={"by": "olga"}))
    start_sender()
    assert stand_in.wait(lambda it: bool(it.changes))
    assert stand_in.changes[0]["payload"]["summary"] == "policy revision 15"
    assert stand_in.violations == []


def test_what_is_refused_is_kept_with_the_reason_and_never_sent_again(
    stand_in: PagerDuty, start_sender: StartSender
) -> None:
    asked = []

    def refuse(event: dict[str, Any]) -> int:
        asked.append(event["event_action"])
        return 400

    stand_in.answer = refuse
    pagerduty("all", url=stand_in.url)
    for sequence, action in enumerate(["trigger", "acknowledge", "resolve"]):
        enqueue(notice(action, sequence))  # type: ignore[arg-type]
    start_sender()
    eventually(settled())
    assert states() == [("trigger", "dead"), ("acknowledge", "dropped"), ("resolve", "dropped")]
    assert asked == ["trigger"]
    dead = Delivery.objects.get(state="dead")
    assert dead.status == 400
    assert "as the test asked" in dead.error


def test_a_resolve_goes_to_the_service_of_its_trigger_although_the_routing_key_was_changed(
    stand_in: PagerDuty, start_sender: StartSender
) -> None:
    destination = pagerduty("all", 1, url=stand_in.url)
    enqueue(notice("trigger", 1))
    start_sender()
    eventually(settled())
    destination.point_at(stand_in.url, routing_key(2))
    destination.save()
    enqueue(notice("resolve", 2))
    enqueue(notice("trigger", 1, key="incident-2"))
    eventually(settled("incident-1", "incident-2"))
    assert stand_in.actions("incident-1", routing_key(1)) == ["trigger", "resolve"]
    assert stand_in.actions("incident-2", routing_key(2)) == ["trigger"]
    assert stand_in.violations == []


def test_a_destination_that_hangs_holds_up_nobody_else(stand_in: PagerDuty, start_sender: StartSender) -> None:
    with PagerDutyThatHangs(stand_in) as hanging:
        pagerduty("hangs", 1, url=hanging.url)
        pagerduty("answers", 2, url=stand_in.url)
        for number in range(40):
            enqueue(notice("trigger", 1, key=f"incident-{number}"))
        start_sender()
        assert stand_in.wait(lambda it: len(it.alerts) == 40)
    assert Delivery.objects.filter(destination__name="hangs", state="pending").count() == 40


def PagerDutyThatHangs(like: PagerDuty) -> PagerDuty:  # noqa: N802
    hanging = PagerDuty(like.openapi)
    hanging.storm = Storm(0, fair=0, silence_s=2, weights={"silence": 1})
    return hanging


def test_of_many_updates_that_waited_only_the_newest_is_told(stand_in: PagerDuty, start_sender: StartSender) -> None:
    pagerduty("all", url=stand_in.url)
    for sequence in range(5):
        enqueue(notice("trigger", sequence, details={"sequence": sequence}))
    enqueue(notice("resolve", 5))
    start_sender()
    eventually(settled())
    assert stand_in.actions("incident-1") == ["trigger", "resolve"]
    assert stand_in.alert("incident-1").taken[0][1]["payload"]["custom_details"] == {"sequence": 4}


def test_a_page_that_cannot_be_delivered_falls_through_with_what_follows(
    stand_in: PagerDuty, start_sender: StartSender
) -> None:
    second = pagerduty("second", 2, url=stand_in.url, enabled=True, severities=[])
    pagerduty("first", 1, url="https://127.0.0.1:1", fallback=second, fallback_after_s=0)
    enqueue(notice("trigger", 1))
    start_sender()
    assert stand_in.wait(lambda it: it.actions("incident-1", routing_key(2)) == ["trigger"])
    enqueue(notice("resolve", 2))
    assert stand_in.wait(lambda it: it.actions("incident-1", routing_key(2)) == ["trigger", "resolve"])
    first_waits = [("trigger", "pending"), ("trigger", "delivered"), ("resolve", "pending"), ("resolve", "delivered")]
    eventually(lambda: states() == first_waits)


def test_a_refused_page_falls_through_at_once(stand_in: PagerDuty, start_sender: StartSender) -> None:
    stand_in.answer = lambda event: 400 if event["routing_key"] == routing_key(1) else 202
    second = pagerduty("second", 2, url=stand_in.url, severities=[])
    pagerduty("first", 1, url=stand_in.url, fallback=second, fallback_after_s=3600)
    enqueue(notice("trigger", 1))
    enqueue(notice("resolve", 2))
    start_sender()
    assert stand_in.wait(lambda it: it.actions("incident-1", routing_key(2)) == ["trigger", "resolve"])
    assert stand_in.violations == []


def test_pages_go_before_changes(stand_in: PagerDuty, start_sender: StartSender) -> None:
    stand_in.answer = lambda event: 202
    pagerduty("all", url=stand_in.url)
    now = timezone.now()
    for _ in range(60):
        enqueue(change())
    enqueue(notice("trigger", 1))
    assert Delivery.objects.filter(due_at__gte=now).count() == 61
    changes_before: list[int] = []
    start_sender()
    assert stand_in.wait(
        lambda it: it.actions("incident-1") == ["trigger"] and not changes_before.append(len(it.changes))
    )
    assert changes_before[0] < 60


def test_each_entry_of_the_audit_goes_signed_to_who_takes_it_and_is_sent_again(
    start_sender: StartSender, settings: Settings
) -> None:
    came: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        came.append((dict(request.headers), await request.read()))
        return web.Response(status=503 if len(came) == 1 else 204)

    settings.CONFIG = settings.CONFIG.model_copy(update={"outbound_allow": ["127.0.0.1"]})
    receiver, secret = ThreadedServer(web.post("/", take)).start(), webhook.new_secret()
    try:
        pagerduty("other", url="https://127.0.0.1:1/")
        taker = Destination(name="siem", kind="webhook", takes_audit=True)
        taker.point_at(receiver.url, secret)
        taker.save()
        tier = Tier.objects.create(name="gold", priority=1)
        GatewayKey.objects.issue(Tenant.objects.create(name="acme", tier=tier), "shop")
        start_sender()
        eventually(lambda: not Delivery.objects.filter(action="audit").exclude(state="delivered").exists())
    finally:
        receiver.stop()
    entries = Entry.objects.filter(number__gte=Entry.objects.get(subject="siem").number).order_by("number")
    assert len(came) == len(entries) + 1 >= 5 and len({headers["webhook-id"] for headers, _ in came}) == len(entries)
    for headers, body in came:
        signed = webhook.signature(secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
        assert headers["webhook-signature"] == signed
    said = [json.loads(body) for _, body in came[1:]]
    assert {each["type"] for each in said} == {"audit"}
    found = sorted((each["data"] for each in said), key=lambda data: data["number"])
    assert found == [json.loads(json.dumps(entry.exported)) for entry in entries]
    [key] = [data for data in found if data["kind"] == "fleet.gatewaykey"]
    assert key["after"]["sha256"] == HIDDEN
    assert all(
        row.notice == {"number": int(row.key.removeprefix("audit-"))} for row in Delivery.objects.filter(action="audit")
    )


@pytest.mark.parametrize(("kind", "team"), [("pagerduty", ""), ("webhook", "serving")])
def test_the_audit_goes_to_nobody_but_administrators_webhooks(kind: str, team: str) -> None:
    row = Team.objects.create(name=team) if team else None
    form = DestinationForm(
        {
            "name": "x",
            "kind": kind,
            "url": "https://example.com/",
            "secret": "",
            "team": row,
            "takes_audit": "on",
            "fallback_after_s": 9,
        }
    )
    assert "without a team" in str(form.errors["takes_audit"])
