"""Slack's incoming webhooks, and programs that take the same messages (Mattermost, Rocket.Chat): text in mrkdwn.

The URL is a secret: whoever has it can write to the channel.
"""

import json
from typing import Any

from controlplane.core.formatting import shortened
from controlplane.incidents.notify.core.notice import Notice
from controlplane.incidents.notify.delivery.destinations.kind import (
    DestinationKind,
    Message,
    Post,
    Problem,
    RequestAddress,
    absolute,
)

MAX_DETAILS = 10
MAX_DETAIL_CHARS = 300
MAX_TEXT_CHARS = 3_000
WORDS = {"acknowledge": "acknowledged", "resolve": "resolved"}


def render(message: Message) -> Post:
    notice = message.notice
    head = WORDS.get(notice.action, notice.severity) if isinstance(notice, Notice) else "changed"
    lines = [f"*{head.upper()}* {escaped(notice.summary)}"]
    if not isinstance(notice, Notice) or notice.action == "trigger":
        details = [(name, plain(value)) for name, value in list(notice.details.items())[:MAX_DETAILS]]
        lines += [f"• {escaped(name)}: {escaped(shortened(text, MAX_DETAIL_CHARS))}" for name, text in details if text]
    text = shortened("\n".join(lines), MAX_TEXT_CHARS)
    links = " · ".join(f"<{_href(link.href)}|{escaped(link.text or 'open')}>" for link in absolute(notice.links)[:10])
    body = json.dumps({"text": f"{text}\n{links}" if links else text}).encode()
    return Post(message.secret, body, {"Content-Type": "application/json"})


def escaped(text: str) -> str:
    """Escapes the three characters of mrkdwn, so that no text notifies a channel with <!here>."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _href(href: str) -> str:
    return escaped(href).replace("|", "%7C")


def problem(url: str, secret: str) -> Problem | None:
    if not secret.startswith(("https://", "http://")):
        return Problem("secret", "Give the webhook's whole URL, such as https://hooks.slack.com/services/….")
    if url:
        return Problem("url", "Leave it empty: Slack's URL is a secret, and goes into the field below.")
    return None


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("secret", secret, is_secret=True)


SLACK = DestinationKind(
    name="slack",
    label="Slack-compatible webhook",
    url_help="empty",
    credential_help="the webhook's whole URL",
    problem=problem,
    address=address,
    render=render,
)
