"""What PagerDuty gets, held to its OpenAPI document."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from controlplane.incidents.notify.core.notice import Change, Link, Notice
from controlplane.incidents.notify.delivery.core.stored_notice import notice_of, to_json
from controlplane.incidents.notify.delivery.destinations import pagerduty
from controlplane.incidents.notify.delivery.destinations.kind import Message
from tests.support.incidents.notices import AT, change, notice, routing_key
from tests.support.incidents.pagerduty import CONTRACT, PagerDuty

JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=40),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


LINKS = some.lists(
    some.builds(Link, some.sampled_from(["https://weir/x", "/relative", "javascript:x"]), some.text())
).map(tuple)


NOTICES = some.builds(
    Notice,
    action=some.just("trigger"),
    key=some.text("abc/é", min_size=1, max_size=255),
    sequence=some.integers(0, 99),
    at=some.just(AT),
    summary=some.text(min_size=1, max_size=2_000).filter(str.strip),
    severity=some.sampled_from(["critical", "error", "warning", "info"]),
    source=some.text(max_size=40),
    team=some.text(max_size=40),
    component=some.text(max_size=2_000),
    group=some.text(max_size=40),
    kind=some.text(max_size=40),
    details=some.dictionaries(some.text(max_size=20), JSON, max_size=6),
    links=LINKS,
)


@pytest.fixture
def contract(shared_dir: Path) -> PagerDuty:
    return PagerDuty(shared_dir / CONTRACT)


def event(made: Notice | Change) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pagerduty.render(Message(made, "", routing_key(1))).body)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(NOTICES)
def test_whatever_a_notice_holds_pagerduty_takes_it(contract: PagerDuty, made: Notice) -> None:
    """Through the outbox's JSON and back, as every notice goes."""
    kept = notice_of(json.loads(json.dumps(to_json(made), allow_nan=False)))
    contract.check("/v2/enqueue", "application/json", pagerduty.render(Message(kept, "", routing_key(1))).body)


def test_a_summary_of_which_nothing_can_be_stored_is_replaced_by_the_key(contract: PagerDuty) -> None:
    stored = notice_of(json.loads(json.dumps(to_json(replace(notice("trigger", 1), summary="\x00")))))
    assert stored.summary == ""
    sent = json.loads(pagerduty.render(Message(stored, "", routing_key(1))).body)
    assert sent["payload"]["summary"] == stored.key


def test_a_trigger_carries_every_field_under_its_name_there() -> None:
    found = event(
        notice(
            "trigger",
            1,
            details={"stage": "queue"},
            component="chat-large",
            group="chat",
            kind="latency",
            links=(Link("https://weir/incidents/1", "Incident"), Link("/relative", "lost")),
        )
    )
    assert found == {
        "routing_key": routing_key(1),
        "event_action": "trigger",
        "dedup_key": "incident-1",
        "client": "Weir",
        "client_url": "https://weir/incidents/1",
        "links": [{"href": "https://weir/incidents/1", "text": "Incident"}],
        "payload": {
            "summary": "incident-1 trigger",
            "source": "weir",
            "severity": "critical",
            "timestamp": "2026-11-20T12:00:00.000+00:00",
            "component": "chat-large",
            "group": "chat",
            "class": "latency",
            "custom_details": {"stage": "queue"},
        },
    }


@pytest.mark.parametrize("action", ["acknowledge", "resolve"])
def test_what_follows_carries_the_key_alone(action: Any) -> None:
    assert event(notice(action, 2)) == {
        "routing_key": routing_key(1),
        "event_action": action,
        "dedup_key": "incident-1",
    }


def test_events_and_changes_have_their_own_addresses_and_the_eu_has_its_own_host() -> None:
    eu = "https://events.eu.pagerduty.com"
    assert pagerduty.render(Message(notice("trigger", 1), "", "")).url == "https://events.pagerduty.com/v2/enqueue"
    assert pagerduty.render(Message(change(), eu, "")).url == f"{eu}/v2/change/enqueue"


def test_a_long_summary_is_cut_with_an_ellipsis() -> None:
    summary = event(Notice("trigger", "k", 1, AT, "x" * 2_000, "info", "weir"))["payload"]["summary"]
    assert summary == "x" * 1_023 + "…"


def test_an_event_that_is_too_large_loses_its_largest_details_and_says_so(contract: PagerDuty) -> None:
    details = {"stage": "queue", "traces": ["é" * 1_000] * 400, "spans": "y" * 300_000, "owner": "serving"}
    post = pagerduty.render(Message(notice("trigger", 1, details=details), "", routing_key(1)))
    contract.check("/v2/enqueue", "application/json", post.body)
    kept = json.loads(post.body)["payload"]["custom_details"]
    assert kept["stage"] == "queue"
    assert kept["owner"] == "serving"
    assert "traces" not in kept
    assert kept["spans"] == details["spans"]
    assert kept["shortened by Weir"].startswith("1 of 4 details were too large to send: traces.")
