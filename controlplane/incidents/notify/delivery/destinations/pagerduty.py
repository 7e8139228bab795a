"""PagerDuty: Events API v2 (https://developer.pagerduty.com/docs/events-api-v2), with change events.

What people do there comes back by its V3 webhooks: `pagerduty_inbound.py`.
"""

import json
from collections.abc import Mapping
from typing import Any

from controlplane.core.formatting import shortened
from controlplane.incidents.notify.core.notice import Change, Link, Notice
from controlplane.incidents.notify.delivery.destinations.kind import (
    DestinationKind,
    Message,
    Post,
    Problem,
    RequestAddress,
    absolute,
)

EVENTS_URL = "https://events.pagerduty.com"
MAX_SUMMARY_CHARS = 1024
MAX_EVENT_BYTES = 512 * 1024
MAX_FIELD_CHARS = 1024  # source, component, group, class, a link's text: PagerDuty limits only the whole event
MAX_HREF_CHARS = 2048
MAX_LINKS = 50
STATEMENT_BYTES = 8 * 1024
"""Room for the text that says what is left out."""
SHORTENED = "shortened by Weir"


def render(message: Message) -> Post:
    event = change(message) if isinstance(message.notice, Change) else incident(message.notice, message.secret)
    path = "/v2/change/enqueue" if isinstance(message.notice, Change) else "/v2/enqueue"
    url = (message.url or EVENTS_URL).rstrip("/") + path
    return Post(url, encoded(event), {"Content-Type": "application/json"})


def incident(notice: Notice, routing_key: str) -> dict[str, Any]:
    """What follows a trigger carries only its key: PagerDuty has the rest."""
    event: dict[str, Any] = {"routing_key": routing_key, "event_action": notice.action, "dedup_key": notice.key}
    if notice.action != "trigger":
        return event
    links = _links(notice.links)
    payload = {
        "summary": shortened(notice.summary or notice.key, MAX_SUMMARY_CHARS),  # PagerDuty refuses an empty one
        "source": shortened(notice.source or "weir", MAX_FIELD_CHARS),
        "severity": notice.severity,
        "timestamp": notice.at.isoformat(timespec="milliseconds"),
        "component": shortened(notice.component, MAX_FIELD_CHARS),
        "group": shortened(notice.group, MAX_FIELD_CHARS),
        "class": shortened(notice.kind, MAX_FIELD_CHARS),
        "custom_details": dict(notice.details),
    }
    event |= {"client": "Weir", "links": links, "payload": {name: value for name, value in payload.items() if value}}
    if links:
        event["client_url"] = links[0]["href"]
    return fitted(event)


def change(message: Message) -> dict[str, Any]:
    notice = message.notice
    payload: dict[str, Any] = {
        "summary": shortened(
            notice.summary or notice.source or "weir", MAX_SUMMARY_CHARS
        ),  # PagerDuty refuses an empty one
        "source": shortened(notice.source or "weir", MAX_FIELD_CHARS),
        "timestamp": notice.at.isoformat(timespec="milliseconds"),
        "custom_details": dict(notice.details),
    }
    return fitted({"routing_key": message.secret, "payload": payload, "links": _links(notice.links)})


def encoded(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def fitted(event: dict[str, Any]) -> dict[str, Any]:
    """The event within MAX_EVENT_BYTES: the largest details are left out, and the event says which."""
    size = len(encoded(event))
    details: dict[str, Any] = event["payload"].get("custom_details", {})
    if size <= MAX_EVENT_BYTES:
        return event
    sizes = {name: len(encoded({name: value})) for name, value in details.items()}
    left_out: list[str] = []
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if size <= MAX_EVENT_BYTES - STATEMENT_BYTES:
            break
        size -= sizes[name] - 1  # its braces were never there, a comma was
        left_out.append(name)
    omitted = set(left_out)
    kept = {name: value for name, value in details.items() if name not in omitted}
    names = shortened(", ".join(left_out[:20]), 1_000)
    kept[SHORTENED] = (
        f"{len(left_out)} of {len(details)} details were too large to send: {names}. Weir's page has them."
    )
    return {**event, "payload": {**event["payload"], "custom_details": kept}}


def _links(links: tuple[Link, ...]) -> list[dict[str, str]]:
    sent = [link for link in absolute(links) if len(link.href) <= MAX_HREF_CHARS][:MAX_LINKS]
    return [{"href": link.href, "text": shortened(link.text or link.href, MAX_FIELD_CHARS)} for link in sent]


ROUTING_KEY_CHARACTERS = 32


def problem(url: str, secret: str) -> Problem | None:
    if len(secret) == ROUTING_KEY_CHARACTERS and secret.isalnum():
        return None
    return Problem(
        "secret",
        f"A routing key has {ROUTING_KEY_CHARACTERS} letters and digits: copy it from the integration's page.",
    )


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("url", url or EVENTS_URL)


PAGERDUTY = DestinationKind(
    name="pagerduty",
    label="PagerDuty (Events v2)",
    url_help="empty, or https://events.eu.pagerduty.com in the EU",
    credential_help="the integration's routing key",
    problem=problem,
    address=address,
    render=render,
)
