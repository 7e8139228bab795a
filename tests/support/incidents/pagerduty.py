"""A stand-in for PagerDuty's Events v2: a real HTTP server that checks every request against the published OpenAPI document and
the rules around it, keeps alerts as PagerDuty does, and storms on request.

What breaks the contract is answered 400, as PagerDuty would, and kept in `violations`.
"""

import asyncio
import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from jsonschema import Draft4Validator, FormatChecker

from tests.support.http_server import ThreadedServer

CONTRACT = Path("fixtures") / "pagerduty" / "events-v2.openapi.json"
"""PagerDuty's OpenAPI document, in the folder of recorded fixtures."""
MAX_BYTES = 512 * 1024
STORM = {
    "429": 4,
    "429 for a while": 1,
    "500": 3,
    "503": 3,
    "reset": 3,  # before it was read as an event
    "lost answer": 4,  # accepted, and the connection is reset
    "silence": 2,  # not accepted, and no answer either
    "accepted in silence": 2,
    "slow body": 2,
}
"""Weights of what goes wrong, out of as many fair answers as `Storm.fair` says."""


@dataclass
class Storm:
    seed: int
    fair: int = 24
    silence_s: float = 1.0  # longer than the sender waits
    weights: Mapping[str, int] = field(default_factory=lambda: STORM)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._names = ["", *self.weights]
        self._weights = [self.fair, *self.weights.values()]

    def next(self) -> str:
        return self._random.choices(self._names, self._weights)[0]


@dataclass
class Alert:
    state: str = "new"  # triggered, acknowledged, resolved
    opened: int = 0
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # every accepted event


class PagerDuty(ThreadedServer):
    """`url` is what a destination is pointed at."""

    def __init__(self, openapi: Path) -> None:
        self.openapi = openapi
        document = json.loads(openapi.read_text())
        self._schemas = {
            f"/v2{path}": Draft4Validator(
                _closed(_resolved(operation["post"]["requestBody"]["content"]["application/json"]["schema"], document)),
                format_checker=FormatChecker(),
            )
            for path, operation in document["paths"].items()
        }
        super().__init__(*(web.post(path, self._take) for path in self._schemas))
        self.storm: Storm | None = None
        self.answer: Callable[[dict[str, Any]], int] = lambda event: 202
        """Overrides the status, such as 400 for a routing key that is not known any more."""
        self.alerts: dict[tuple[str, str], Alert] = defaultdict(Alert)
        self.changes: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.seen: Counter[str] = Counter()
        self._new = threading.Condition()

    def wait(self, question: Callable[["PagerDuty"], bool], timeout_s: float = 30.0) -> bool:
        """Until an accepted event makes `question` true."""
        with self._new:
            return self._new.wait_for(lambda: question(self), timeout_s)

    def alert(self, key: str, routing_key: str = "") -> Alert:
        return next(
            (alert for (route, name), alert in self.alerts.items() if name == key and routing_key in ("", route)),
            Alert(),
        )

    def actions(self, key: str, routing_key: str = "") -> list[str]:
        return [action for action, _ in self.alert(key, routing_key).taken]

    async def _take(self, request: web.Request) -> web.StreamResponse:
        trouble = self.storm.next() if self.storm else ""
        silence_s = self.storm.silence_s if self.storm else 0.0
        self.seen[trouble or "fair"] += 1
        match trouble:
            case "429" | "429 for a while":
                header = {"Retry-After": "1"} if trouble != "429" else {}
                return web.json_response({"status": "throttle", "message": "slow down"}, status=429, headers=header)
            case "500" | "503":
                return web.Response(status=int(trouble), text="upstream trouble")
            case "reset":
                return self._reset(request)
            case "silence":
                await asyncio.sleep(silence_s)
                return self._reset(request)
        body = await request.read()
        response = self._answer(request.path, request.content_type, body)
        match trouble:
            case "lost answer":
                return self._reset(request)
            case "accepted in silence":
                await asyncio.sleep(silence_s)
                return self._reset(request)
            case "slow body":
                return await self._drip(request, response, silence_s)
        return response

    def _reset(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _drip(self, request: web.Request, response: web.Response, silence_s: float) -> web.StreamResponse:
        slow = web.StreamResponse(status=response.status)
        await slow.prepare(request)
        try:
            for _ in range(4):
                await slow.write(b" ")
                await asyncio.sleep(silence_s / 4)
        except ConnectionError:
            pass
        return slow

    def _answer(self, path: str, content_type: str, body: bytes) -> web.Response:
        try:
            event = self.check(path, content_type, body)
        except ValueError as error:
            self.violations.append(f"{path}: {error}: {body[:300]!r}")
            return _refusal(str(error))
        status = self.answer(event)
        if status != 202:
            return web.json_response({"status": "error", "message": "as the test asked"}, status=status)
        with self._new:
            if path.endswith("/change/enqueue"):
                self.changes.append(event)
            else:
                self._apply(event)
            self._new.notify_all()
        return web.json_response(
            {"status": "success", "message": "Event processed", "dedup_key": event.get("dedup_key", "")}, status=202
        )

    def check(self, path: str, content_type: str, body: bytes) -> dict[str, Any]:
        """The event. Raises ValueError for what breaks the contract."""
        if content_type != "application/json":
            raise ValueError(f"content type {content_type}")
        if len(body) > MAX_BYTES:
            raise ValueError(f"{len(body)} bytes")
        event: dict[str, Any] = json.loads(body, parse_constant=_no_constant)
        for error in self._schemas[path].iter_errors(event):
            raise ValueError(error.message)
        if len(event["routing_key"]) != 32:
            raise ValueError("routing_key does not have 32 characters")
        payload = event.get("payload", {})
        if len(payload.get("summary", "")) > 1024:
            raise ValueError("summary is longer than 1024 characters")
        if "timestamp" in payload and datetime.fromisoformat(payload["timestamp"]).tzinfo is None:
            raise ValueError("timestamp has no zone")
        for href in [link["href"] for link in event.get("links", [])] + [event.get("client_url", "http://none")]:
            if urlsplit(href).scheme not in ("http", "https"):
                raise ValueError(f"{href} is no absolute link")
        if any(not image["src"].startswith("https://") for image in event.get("images", [])):
            raise ValueError("an image is not served over https")
        if path.endswith("/change/enqueue"):
            return event
        action, key = event["event_action"], event.get("dedup_key", "")
        if action == "trigger" and not payload:
            raise ValueError("a trigger without payload")
        if action != "trigger" and not key:
            raise ValueError(f"{action} without dedup_key")
        if len(key) > 255:
            raise ValueError("dedup_key is longer than 255 characters")
        if action != "trigger" and not self.alerts[event["routing_key"], key].opened:
            raise ValueError(f"{action} of {key} before its trigger, or with another routing key")
        return event

    def _apply(self, event: dict[str, Any]) -> None:
        """As PagerDuty does: what is resolved stays so until a trigger opens a new alert."""
        alert = self.alerts[event["routing_key"], event.get("dedup_key", "")]
        action = event["event_action"]
        alert.taken.append((action, event))
        if action == "trigger" and alert.state in ("new", "resolved"):
            alert.state, alert.opened = "triggered", alert.opened + 1
        elif action == "acknowledge" and alert.state == "triggered":
            alert.state = "acknowledged"
        elif action == "resolve":
            alert.state = "resolved"


def _refusal(message: str) -> web.Response:
    return web.json_response({"status": "invalid event", "message": message, "errors": [message]}, status=400)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _resolved(schema: Any, document: dict[str, Any]) -> Any:
    """The schema with what it refers to in its place."""
    if isinstance(schema, list):
        return [_resolved(one, document) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return _resolved(found, document)
    return {name: _resolved(value, document) for name, value in schema.items()}


def _closed(schema: Any) -> Any:
    """The same schema without room for fields that it does not name: a misspelt one is ignored by PagerDuty, not by us."""
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items() if name != "properties"}
    if "properties" in schema:
        closed["properties"] = {name: _closed(value) for name, value in schema["properties"].items()}
        closed["additionalProperties"] = False
    return closed
