"""What goes over the wire, by the book of whoever reads it."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from controlplane.incidents.notify.core.notice import Change, Link, Notice
from controlplane.incidents.notify.delivery.core.stored_notice import change_of, notice_of, to_json
from controlplane.incidents.notify.delivery.destinations import RENDER
from controlplane.incidents.notify.delivery.destinations.message import Message
from controlplane.incidents.notify.delivery.destinations.pagerduty import payload
from controlplane.incidents.notify.delivery.destinations.webhook import payload as webhook
from tests.support.incidents.notices import AT, change, notice, routing_key
from tests.support.incidents.pagerduty import PagerDuty

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
    return PagerDuty(shared_dir / "fixtures" / "pagerduty" / "events-v2.openapi.json")


def event(made: Notice | Change) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(payload.render(Message(made, "", routing_key(1))).body)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(NOTICES)
def test_whatever_a_notice_holds_pagerduty_takes_it(contract: PagerDuty, made: Notice) -> None:
    """Through the outbox's JSON and back, as every notice goes."""
    kept = notice_of(json.loads(json.dumps(to_json(made), allow_nan=False)))
    contract.check("/v2/enqueue", "application/json", payload.render(Message(kept, "", routing_key(1))).body)


def test_what_is_kept_comes_back_as_it_was() -> None:
    full = notice(
        "trigger", 3, details={"a": [1, None, {"b": "c"}]}, links=(Link("https://weir/i", "incident"),), team="serving"
    )
    assert notice_of(json.loads(json.dumps(to_json(full)))) == full
    assert change_of(json.loads(json.dumps(to_json(change(details={"x": 1}))))) == change(details={"x": 1})


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
    assert payload.render(Message(notice("trigger", 1), "", "")).url == "https://events.pagerduty.com/v2/enqueue"
    assert payload.render(Message(change(), eu, "")).url == f"{eu}/v2/change/enqueue"


def test_a_long_summary_is_cut_with_an_ellipsis() -> None:
    summary = event(Notice("trigger", "k", 1, AT, "x" * 2_000, "info", "weir"))["payload"]["summary"]
    assert summary == "x" * 1_023 + "…"


def test_an_event_that_is_too_large_loses_its_largest_details_and_says_so(contract: PagerDuty) -> None:
    details = {"stage": "queue", "traces": ["é" * 1_000] * 400, "spans": "y" * 300_000, "owner": "serving"}
    post = payload.render(Message(notice("trigger", 1, details=details), "", routing_key(1)))
    contract.check("/v2/enqueue", "application/json", post.body)
    kept = json.loads(post.body)["payload"]["custom_details"]
    assert kept["stage"] == "queue"
    assert kept["owner"] == "serving"
    assert "traces" not in kept
    assert kept["spans"] == details["spans"]
    assert kept["shortened by Weir"].startswith("1 of 4 details were too large to send: traces.")


def test_a_hundred_thousand_small_details_still_fit(contract: PagerDuty) -> None:
    details = {f"detail {number}": "x" * 20 for number in range(100_000)}
    post = payload.render(Message(notice("trigger", 1, details=details), "", routing_key(1)))
    contract.check("/v2/enqueue", "application/json", post.body)


def test_a_webhook_is_signed_as_standard_webhooks_lays_down() -> None:
    secret = webhook.new_secret()
    post = webhook.render(Message(notice("trigger", 1), "https://example.com/hook", secret, "weir-7", 1_700_000_000))
    signed = b"weir-7.1700000000." + post.body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert post.headers["webhook-id"] == "weir-7"
    assert post.headers["webhook-timestamp"] == "1700000000"
    assert post.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    body = json.loads(post.body)
    assert body["type"] == "incident.trigger"
    assert body["data"]["summary"] == "incident-1 trigger"


def test_the_specification_s_own_example_is_signed_as_it_says() -> None:
    """From the specification's libraries: secret, id, time and payload with the signature that they must have."""
    found = webhook.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="the secret is not whsec_"):
        webhook.key(secret)


def test_slack_reads_a_message_that_pings_nobody_by_accident() -> None:
    made = Notice(
        "trigger",
        "k",
        1,
        AT,
        "<!here> p95 > 100 ms & rising",
        "critical",
        "weir",
        details={"stage": "queue", "tokens": [4096, 8192]},
        links=(Link("https://weir/incidents/1?a=1&b=2|x", "Incident"),),
    )
    post = RENDER["slack"](Message(made, "", "https://hooks.slack.com/services/T/B/secret"))
    text = json.loads(post.body)["text"]
    assert text.splitlines() == [
        "*CRITICAL* &lt;!here&gt; p95 &gt; 100 ms &amp; rising",
        "• stage: queue",
        "• tokens: [4096, 8192]",
        "<https://weir/incidents/1?a=1&amp;b=2%7Cx|Incident>",
    ]
    assert post.url == "https://hooks.slack.com/services/T/B/secret"


def test_a_secret_is_in_no_text_of_a_message_or_request() -> None:
    message = Message(notice("trigger", 1), "https://x", "hunter2")
    assert "hunter2" not in repr(message)
    assert "hunter2" not in repr(RENDER["pagerduty"](message))
    assert "hunter2" not in repr(RENDER["slack"](message))
