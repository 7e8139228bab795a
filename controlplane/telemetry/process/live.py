"""Sends `live.changed` to the channel layer's group `live` at most once a second, so that open pages show new requests."""

import asyncio
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

GROUP = "live"
PREFIX = "weir"
"""The prefix in Django's CHANNEL_LAYERS, which must be the same."""
EVERY_S = 1.0
TIMEOUT_S = 1.0


class Layer(Protocol):
    async def group_send(self, group: str, message: dict[str, object]) -> object: ...


class Live:
    """Sends messages while Redis can be reached. Without Redis pages refresh at their own interval, and nothing waits here."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._newest_ns, self._requests = 0, 0
        self._changed = asyncio.Event()
        self._reachable = True

    def changed(self, newest_ns: int, requests: int) -> None:
        """Note that request rows were stored, the newest of which ended at `newest_ns`."""
        self._newest_ns = max(self._newest_ns, newest_ns)
        self._requests += requests
        self._changed.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            message: dict[str, object] = {
                "type": "live.changed",
                "newest_ns": self._newest_ns,
                "requests": self._requests,
            }
            self._requests = 0
            await self._send(message)
            await asyncio.sleep(EVERY_S)

    async def _send(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._layer.group_send(GROUP, message)
        except Exception as error:  # noqa: BLE001  (Redis's client raises errors of many kinds, and none matters here)
            if self._reachable:
                log.warning("live.failed", error=f"{type(error).__name__}: {error}")
            self._reachable = False
        else:
            self._reachable = True


def redis_layer(url: str) -> Layer:
    from channels_redis.pubsub import RedisPubSubChannelLayer

    layer: Layer = RedisPubSubChannelLayer(hosts=[url], prefix=PREFIX)
    return layer
