"""What tenants are told of their batches and jobs, by streams, web sockets and webhooks. Nothing of what was asked or answered."""

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


class Event(NamedTuple):
    """`cursor` is said by a client that comes again: it goes on after it. One without `kind` says no more than that."""

    kind: str
    data: Mapping[str, Any]
    cursor: Cursor | None = None

    def to_stream(self) -> bytes:
        """As a server-sent event."""
        where = b"id: %s\n" % str(self.cursor).encode() if self.cursor else b""
        what = b"event: %s\ndata: %s\n" % (self.kind.encode(), msgspec.json.encode(self.data)) if self.kind else b""
        return where + what + b"\n"

    def to_socket(self) -> str:
        """As a message of a web socket."""
        where = {"id": str(self.cursor)} if self.cursor else {}
        what = {"event": self.kind, "data": self.data} if self.kind else {}
        return msgspec.json.encode(where | what).decode()
