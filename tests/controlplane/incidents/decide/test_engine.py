"""Ticks become rows, timelines and notices."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from controlplane.incidents.act import actions
from controlplane.incidents.attribution import gather
from controlplane.incidents.decide import engine, rows
from controlplane.incidents.models import Entry, Incident, SilenceRecord
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core.notice import Notice
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.windows import Severity
from tests.support.incidents.alerts import NOW, TTFT, after, alert, outage
from tests.support.incidents.notices import pagerduty

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]


def in_short(sent: list[Notice]) -> list[tuple[str, str]]:
    return [(notice.action, notice.severity) for notice in sent]


def test_a_firing_alert_opens_one_incident_and_is_told_once(sent: list[Notice]) -> None:
    for minute in range(3):
        engine.observe([alert(at=after(minute))], after(minute))
    incident = Incident.objects.get()
    assert in_short(sent) == [("trigger", "critical")]
    assert sent[0].key == incident.notice_key
    assert sent[0].team == "serving"
    assert sent[0].group == "chat-large · serving"
    assert [entry.kind for entry in incident.entries.all()] == ["opened", "queued"]


def test_it_resolves_once_it_has_been_quiet_for_two_minutes(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    for minute in (1, 2):
        engine.observe([alert(state="quiet")], after(minute))
    assert Incident.objects.get().is_open
    engine.observe([alert(state="quiet")], after(3))
    incident = Incident.objects.get()
    assert not incident.is_open
    assert [notice.action for notice in sent] == ["trigger", "resolve"]
    assert [notice.sequence for notice in sent] == [1, 2]
    assert {notice.key for notice in sent} == {incident.notice_key}


def test_it_resolves_as_soon_though_the_clock_was_set_back(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    engine.observe([alert(state="quiet", at=after(60))], after(60))
    for minute in (1, 2, 3):
        engine.observe([alert(state="quiet", at=after(minute))], after(minute))
    assert not Incident.objects.get().is_open


@pytest.mark.parametrize("alerts", [[alert(state="unknown")], []])
def test_missing_data_resolves_nothing(sent: list[Notice], alerts: list[object]) -> None:
    engine.observe([alert()], NOW)
    for minute in (1, 2, 59):
        engine.observe(alerts, after(minute))  # type: ignore[arg-type]
    assert Incident.objects.get().is_open
    assert Incident.objects.get().signal == "unknown"
    assert in_short(sent) == [("trigger", "critical")]


def test_a_ticket_that_becomes_a_page_is_the_same_incident_and_pages_anew_though_it_was_acknowledged(
    sent: list[Notice],
) -> None:
    engine.observe([alert(severity="ticket", burn=4)], NOW)
    ticket = Incident.objects.get().notice_key
    assert actions.acknowledge(ticket, "tom", after(1))
    engine.observe([alert()], after(2))
    incident = Incident.objects.get()
    assert (incident.severity, incident.status) == ("page", "open")
    assert [(notice.action, notice.key == ticket) for notice in sent] == [
        ("trigger", True),
        ("acknowledge", True),
        ("resolve", True),
        ("trigger", False),
    ]
    assert not actions.acknowledge(ticket, "tom", after(3), via="pagerduty"), (
        "an echo of the ticket is none of the page"
    )


def test_a_page_that_only_smoulders_is_resolved_and_goes_on_as_a_ticket(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    for minute in range(1, 5):
        engine.observe([alert(severity="ticket", burn=4)], after(minute))
    page, ticket = Incident.objects.order_by("id")
    assert (page.status, ticket.severity) == ("resolved", "ticket")
    assert in_short(sent) == [("trigger", "critical"), ("resolve", "critical"), ("trigger", "warning")]


def silence(*matchers: str, minutes: float = 60) -> SilenceRecord:
    return SilenceRecord.objects.create(
        matchers=list(matchers), starts_at=NOW, ends_at=after(minutes), author="tom", reason="load test"
    )


def test_a_silenced_incident_says_why_nobody_is_told_and_is_told_when_the_silence_ends(sent: list[Notice]) -> None:
    silence("tier=premium", "owner=serv*", minutes=10)
    engine.observe([alert()], NOW)
    incident = Incident.objects.get()
    withheld = rows.withheld(incident)
    assert withheld is not None
    assert rows.why_withheld(withheld) == "silenced by tom until 2026-11-21 02:40 UTC: load test"
    assert not sent
    engine.observe([alert(at=after(10))], after(10))
    assert in_short(sent) == [("trigger", "critical")]


def test_a_silence_does_not_keep_a_resolve_from_whoever_was_told(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    silence("objective=chat-ttft")
    for minute in (1, 3):
        engine.observe([alert(state="quiet")], after(minute))
    assert [notice.action for notice in sent] == ["trigger", "resolve"]


def test_an_outage_inhibits_latency_of_its_scope_until_it_is_over(sent: list[Notice]) -> None:
    elsewhere = {"model": "chat-small", "tier": "premium"}
    engine.observe([alert(), alert(replace(TTFT, slug="small-ttft", scope=elsewhere)), outage()], NOW)
    assert {notice.details["objective"] for notice in sent} == {"Chat answers", "Chat answers start quickly"}
    assert len(sent) == 2
    inhibited = Incident.objects.get(withheld="inhibited")
    assert inhibited.scope == TTFT.scope
    assert "inhibited by chat-up/model=chat-large" in inhibited.entries.get(kind=Entry.Kind.WITHHELD).text
    for minute in range(1, 6):
        engine.observe([alert(at=after(minute)), outage(state="quiet")], after(minute))
    assert [(notice.action, notice.details["objective"]) for notice in sent[2:]] == [
        ("resolve", "Chat answers"),
        ("trigger", "Chat answers start quickly"),
    ]


def test_what_a_person_resolves_stays_resolved_for_a_quarter_of_an_hour_and_then_opens_anew(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    first = Incident.objects.get()
    assert actions.resolve(first.notice_key, "tom", after(1), "it was me")
    assert not actions.resolve(first.notice_key, "tom", after(1))
    for minute in range(2, 16):
        engine.observe([alert(at=after(minute))], after(minute))
    assert Incident.objects.count() == 1
    engine.observe([alert(at=after(17))], after(17))
    second = Incident.objects.exclude(pk=first.pk).get()
    assert [(notice.action, notice.key) for notice in sent] == [
        ("trigger", first.notice_key),
        ("resolve", first.notice_key),
        ("trigger", second.notice_key),
    ]


def test_after_a_quiet_moment_what_a_person_resolved_opens_at_once(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    actions.resolve(Incident.objects.get().notice_key, "tom", after(1))
    engine.observe([alert(state="quiet")], after(2))
    engine.observe([alert(at=after(3))], after(3))
    assert Incident.objects.count() == 2


@pytest.mark.parametrize("severity", ["page", "ticket"])
def test_what_was_done_in_pagerduty_is_told_to_the_others_and_not_back_there(severity: Severity) -> None:
    for kind in ("pagerduty", "slack"):
        endpoint = Endpoint.objects.create(kind=kind, url=f"https://{kind}.example.com/", secret="x" * 32)
        Destination.objects.create(name=kind, kind=kind, endpoint=endpoint)
    engine.observe([alert(severity=severity)], NOW)
    Delivery.objects.update(state="delivered", settled_at=NOW)
    key = Incident.objects.get().notice_key
    assert actions.acknowledge(key, "Ann", after(1), "looking", via="pagerduty")
    assert not actions.acknowledge(key, "Ann", after(1), via="pagerduty")
    entry = Incident.objects.get().entries.get(kind=Entry.Kind.ACKNOWLEDGED)
    assert (entry.by, entry.via, entry.text) == ("Ann", "pagerduty", "looking")
    assert actions.resolve(key, "Ann", after(2), via="pagerduty")
    sent = Delivery.objects.exclude(state="dropped").order_by("sequence").values_list("endpoint__kind", "action")
    assert [action for kind, action in sent if kind == "slack"] == ["trigger", "acknowledge", "resolve"]
    assert [action for kind, action in sent if kind == "pagerduty"] == ["trigger"]


def test_without_the_store_the_page_goes_out_and_says_so(sent: list[Notice]) -> None:
    engine.observe([alert()], NOW)
    assert "stage and segment not known (the store does not answer)" in sent[0].summary
    assert sent[0].summary.startswith(
        "premium chat-large TTFT p95 burns its budget 18 times too fast over 1 h and 5 min"
    )


def test_the_database_refuses_a_second_open_incident_of_a_key() -> None:
    engine.observe([alert()], NOW)
    twin = Incident.objects.get()
    twin.pk, twin.notice_key = None, "another"
    with pytest.raises(IntegrityError), transaction.atomic():
        twin.save(force_insert=True)


def test_a_failing_outbox_leaves_no_trace_of_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:

    def full(notice: Notice) -> None:
        raise OSError("disk full")

    pagerduty("all")
    with monkeypatch.context() as patch:
        patch.setattr(notices, "enqueue", full)
        with pytest.raises(OSError, match="disk full"):
            engine.observe([alert()], NOW)
    assert not Incident.objects.exists()
    engine.observe([alert()], NOW + timedelta(seconds=15))
    assert Incident.objects.get().queued_as == "page"


BY_POOL = replace(TTFT, slug="by-pool", scope={"model": "chat-large"}, split_by=("pool",))


def of_pool(pool: str, **more: Any) -> Alert:
    return alert(BY_POOL, scope={"model": "chat-large", "pool": pool}, **more)


def test_a_pool_that_is_gone_resolves_its_incident_and_says_why(sent: list[Notice]) -> None:
    engine.observe([of_pool("old")], NOW)
    for minutes in (1, 60, 361):
        engine.observe([of_pool("new", state="quiet")], after(minutes))
    incident = Incident.objects.get()
    assert (incident.status, incident.resolved_by, incident.resolved_at) == ("resolved", "weir", after(361))
    said = list(incident.entries.values_list("text", flat=True))
    assert "No longer in the data: model chat-large · pool old. Resolves if that stays so for 6 h." in said
    assert said[-1].startswith("No longer in the data for 6 h, its longest window: model chat-large · pool old")
    assert [notice.action for notice in sent] == ["trigger", "resolve"]
    assert "No longer in the data for 6 h" in sent[1].summary


def test_an_objective_that_no_longer_judges_a_scope_resolves_what_was_open_there(sent: list[Notice]) -> None:
    engine.observe([of_pool("old")], NOW)
    by_region = replace(BY_POOL, split_by=("region",))
    engine.observe([alert(by_region, state="quiet", scope={"model": "chat-large", "region": "eu"})], after(1))
    incident = Incident.objects.get()
    assert incident.status == "resolved"
    assert incident.entries.last().text == "Its objective was changed, and no longer judges this scope."
    assert sent[-1].action == "resolve"


def test_an_incident_that_a_person_resolves_while_the_store_is_asked_stays_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine.observe([alert()], NOW)
    key = Incident.objects.get().notice_key

    def late(rows: list[Incident], judged: dict[str, Alert]) -> dict[str, gather.Found]:
        actions.resolve(key, "olga", after(1))
        return {row.alert_key: gather.Found({"value": 1.0}) for row in rows}

    monkeypatch.setattr(gather, "late", late)
    engine.observe([alert(at=after(1))], after(1))
    assert (Incident.objects.get().status, Incident.objects.get().attribution) == ("resolved", None)
