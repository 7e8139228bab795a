"""Weir's own webhook, signed as Standard Webhooks 1.0 says (https://www.standardwebhooks.com): any of its libraries verifies it."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from controlplane.core.formatting import capitalised
from controlplane.incidents.notify.core.notice import Notice
from controlplane.incidents.notify.delivery.core.stored_notice import to_json
from controlplane.incidents.notify.delivery.destinations.kind import (
    DestinationKind,
    Message,
    Post,
    Problem,
    RequestAddress,
)

PREFIX = "whsec_"
KEY_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def render(message: Message) -> Post:
    """The id is the delivery's, the same in every attempt: a receiver recognises a repeat by it."""
    notice = message.notice
    kind = f"incident.{notice.action}" if isinstance(notice, Notice) else "change"
    body = event(kind, notice.at.isoformat(), to_json(notice))
    return signed(message.url, message.secret, message.id, message.now_s, body)


def event(kind: str, at: str, data: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "timestamp": at, "data": data}, separators=(",", ":"), default=str).encode()


def signed(url: str, secret: str, message_id: str, now_s: int, body: bytes) -> Post:
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": signature(secret, message_id, now_s, body),
    }
    return Post(url, body, headers)


def signature(secret: str, message_id: str, now_s: int, body: bytes) -> str:
    signed = f"{message_id}.{now_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key(secret), signed, hashlib.sha256).digest()).decode()


def key(secret: str) -> bytes:
    """Raises ValueError where the secret is not `whsec_` and base64 of 24 to 64 bytes."""
    try:
        decoded = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        decoded = b""
    if not secret.startswith(PREFIX) or not 24 <= len(decoded) <= 64:
        raise ValueError(
            f"the secret is not {PREFIX} followed by base64 of 24 to 64 bytes: leave it empty for a new one"
        )
    return decoded


def problem(url: str, secret: str) -> Problem | None:
    if not url:
        return Problem("url", "Say where to send, such as https://example.com/weir.")
    try:
        key(secret)
    except ValueError as error:
        return Problem("secret", f"{capitalised(str(error))}.")
    return None


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("url", url)


WEBHOOK = DestinationKind(
    name="webhook",
    label="Signed webhook",
    url_help="where to send",
    credential_help="empty makes a secret, which is shown once",
    problem=problem,
    address=address,
    render=render,
    new_secret=new_secret,
)
