"""The live socket: what a browser is sent of the page that it shows."""

import gzip
import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from pytest_django import Settings

from controlplane.dashboard import consumers
from tests.support.web.merged import merged

# Channels closes old connections after each message, also one that a test before has left in its thread.
pytestmark = pytest.mark.django_db
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def layer(settings: Settings, redis_url: str) -> None:
    """Channels over the session's real Redis."""
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": [redis_url], "prefix": "test-live"}}}


class Shown:
    """What the page shows, instead of the views; a browser's test sees those."""

    def __init__(self) -> None:
        self.text = "<p>1,</p>" * 40
        self.asked: list[str] = []

    async def fragment(self, scope: Any, path: str) -> str:
        self.asked.append(path)
        return self.text


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    found = Shown()
    monkeypatch.setattr(consumers, "fragment", found.fragment)
    monkeypatch.setattr(consumers, "REFRESH_S", 0.0)
    return found


async def browser(*said: Any) -> ApplicationCommunicator:
    """Connected, and having said what it shows."""
    scope = {"type": "websocket", "path": "/live", "headers": [], "subprotocols": []}
    socket = ApplicationCommunicator(consumers.Live.as_asgi(), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    for each in said:
        await socket.send_input(
            {"type": "websocket.receive", "text": each if isinstance(each, str) else json.dumps(each)}
        )
    return socket


async def told(socket: ApplicationCommunicator) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((await socket.receive_output(PATIENCE_S))["bytes"]))
    return found


async def left(socket: ApplicationCommunicator) -> None:
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()


async def test_a_browser_gets_its_page_whole_and_then_what_changed_of_it(shown: Shown) -> None:
    socket = await browser({"watch": "/latency?q=p99", "number": 1}, {"renew": True})
    first = await told(socket)
    assert first == {"number": 1, "html": shown.text}
    shown.text = shown.text.replace("1", "2", 1)
    await get_channel_layer().group_send("live", {"type": "live.changed"})
    second = await told(socket)
    assert merged(first["html"], second["changes"]) == shown.text
    assert shown.asked == ["/latency?q=p99"] * 2
    await left(socket)


async def test_what_changed_before_it_said_what_it_shows_is_not_lost(shown: Shown) -> None:
    socket = await browser({"renew": True})
    assert await socket.receive_nothing()
    await socket.send_input({"type": "websocket.receive", "text": json.dumps({"watch": "/requests", "number": 1})})
    assert (await told(socket)) == {"number": 1, "html": shown.text}
    await left(socket)


async def test_another_page_begins_whole_and_what_is_not_understood_is_ignored(shown: Shown) -> None:
    elsewhere = (
        {"watch": path, "number": 7} for path in ("/admin/", "/api/v1/requests", "//evil.example/", "/latency" * 2_000)
    )
    socket = await browser(
        "not json", "[]", {"watch": 1}, {"watch": "/requests", "number": 4}, *elsewhere, {"renew": True}
    )
    assert (await told(socket)) == {"number": 4, "html": shown.text}
    await socket.send_input({"type": "websocket.receive", "text": json.dumps({"watch": "/latency", "number": 5})})
    await socket.send_input({"type": "websocket.receive", "text": json.dumps({"renew": True})})
    assert (await told(socket)) == {"number": 5, "html": shown.text}
    assert shown.asked == ["/requests", "/latency"]
    await left(socket)
