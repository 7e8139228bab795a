"""PagerDuty's V3 webhooks as plain values (https://developer.pagerduty.com/docs/webhooks-overview)."""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

VERSION = "v1="
MAX_SIGNATURES = 10


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    type: str
    occurred_at: datetime  # aware
    by: str
    key: str = ""  # the incident key: our dedup_key
    incident_id: str = ""  # PagerDuty's
    text: str = ""  # of a note


def is_signed(body: bytes, header: str, secrets: Iterable[str]) -> bool:
    """Whether a signature of the header is made with one of the secrets. Compares all of them, each in constant time."""
    given = [part.strip().removeprefix(VERSION) for part in header.split(",") if part.strip().startswith(VERSION)]
    matches = [
        hmac.compare_digest(signature.encode(), hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode())
        for secret in secrets
        if secret
        for signature in given[:MAX_SIGNATURES]
    ]
    return any(matches)


def parse(document: Any) -> Event:
    """Takes events of any type. Raises ValueError for anything else."""
    event = document.get("event") if isinstance(document, dict) else None
    if not isinstance(event, dict) or not all(isinstance(event.get(name), str) for name in ("id", "event_type")):
        raise ValueError("event.id and event.event_type are missing: this is no V3 webhook")
    occurred = datetime.fromisoformat(str(event.get("occurred_at")))
    if occurred.tzinfo is None:
        raise ValueError(f"event.occurred_at={occurred.isoformat()} has no time zone")
    data = _object(event.get("data"))
    is_incident = data.get("type") == "incident"
    incident = data if is_incident else _object(data.get("incident"))
    return Event(
        id=event["id"][:100],
        type=event["event_type"][:100],
        occurred_at=occurred,
        by=_text(_object(event.get("agent")).get("summary"))[:200] or "PagerDuty",
        key=_text(incident.get("incident_key"))[:255],
        incident_id=_text(incident.get("id"))[:100],
        text="" if is_incident else _text(data.get("content")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
