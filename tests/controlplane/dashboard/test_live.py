"""The live socket: who is told, and what."""

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from pytest_django import Settings

from controlplane.dashboard.consumers import Live

# Channels closes old connections after each message, also one that a test before has left in its thread.
pytestmark = pytest.mark.django_db
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def layer(settings: Settings, redis_url: str) -> None:
    """Channels over the session's real Redis."""
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": [redis_url], "prefix": "test-live"}}}


async def browser() -> ApplicationCommunicator:
    """Connected, and greeted."""
    socket = ApplicationCommunicator(
        Live.as_asgi(), {"type": "websocket", "path": "/live", "headers": [], "subprotocols": []}
    )
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    assert (await told(socket))["type"] == "hello"
    return socket


async def told(socket: ApplicationCommunicator) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await socket.receive_output(PATIENCE_S))["text"])
    return found


async def announce(requests: int) -> None:
    newest_ns = 1_795_000_000_123_456_789
    await get_channel_layer().group_send("live", {"type": "live.changed", "newest_ns": newest_ns, "requests": requests})


async def test_a_browser_is_told_that_rows_have_arrived() -> None:
    socket = await browser()
    await announce(3)
    found = await told(socket)
    assert (found["type"], found["newest_ms"], found["requests"]) == ("changed", 1_795_000_000_123, 3)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()


async def test_what_a_browser_says_is_ignored() -> None:
    socket = await browser()
    await socket.send_input({"type": "websocket.receive", "text": "not json"})
    await announce(4)
    assert (await told(socket))["requests"] == 4
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()
