"""What tenants are told of their batches and jobs, by server-sent events and webhooks. Nothing of what was asked or answered."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_CURSOR = re.compile(r"(-1|\d{1,18})-(\d{1,18})-(\d{1,12})", re.ASCII)


class Cursor(NamedTuple):
    """The id of an event: where its change is among all, and when it was written, Unix seconds."""

    transaction: int
    change: int
    at: int

    def __str__(self) -> str:
        return "-".join(map(str, self))


def cursor_of(text: str) -> Cursor | None:
    """None of what is no id of an event."""
    given = _CURSOR.fullmatch(text)
    return Cursor(*map(int, given.groups())) if given else None


def event(kind: str, name: str, status: str, metadata: Mapping[str, str] | None, at: int) -> dict[str, Any]:
    """In the form of OpenAI's events. It is the same however often it is sent."""
    data = {"id": name, "status": status, "metadata": metadata}
    return _event(f"{kind}.{status}", at, data) | {"id": f"evt_{name}_{status}"}


def progress(name: str, counts: Mapping[str, int], expected_end: int | None, at: int) -> dict[str, Any]:
    """Of a batch that runs. It has no id: what counts is the latest."""
    return _event("batch.progress", at, {"id": name, "request_counts": counts, "expected_end": expected_end})


def _event(kind: str, at: int, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"object": "event", "type": kind, "created_at": at, "data": data}


def sent(kind: str, data: object, cursor: Cursor | None = None) -> bytes:
    """As a server-sent event. The client says the latest `cursor` when it comes again."""
    where = b"id: %s\n" % str(cursor).encode() if cursor else b""
    return where + b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


def standing(cursor: Cursor) -> bytes:
    """No event, but where a client goes on that comes again."""
    return b"id: %s\n\n" % str(cursor).encode()
