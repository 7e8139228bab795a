"""Sends live updates to browsers, which then request their data again."""

import time
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer

GROUP = "live"


class Live(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    """Passes `live.changed` on as `{"type": "changed", "newest_ms", "requests", "now_ms"}`."""

    groups = [GROUP]

    async def connect(self) -> None:
        await self.accept()
        await self.send_json({"type": "hello", "now_ms": time.time_ns() // 1_000_000})

    async def live_changed(self, event: dict[str, Any]) -> None:
        newest_ns = event.get("newest_ns")
        await self.send_json(
            {
                "type": "changed",
                "newest_ms": newest_ns // 1_000_000 if isinstance(newest_ns, int) else None,
                "requests": event.get("requests"),
                "now_ms": time.time_ns() // 1_000_000,
            }
        )

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Ignores it."""
