"""A server's metrics page."""

import asyncio

from aiohttp import web

from deploy.local.ports import LOOPBACK
from tests.support.http_server import listen


class MetricsPage:
    """At `url`: `body` with `status`, once `gate` is set. `reads` counts how often it was given."""

    def __init__(self, body: str = "") -> None:
        self.body = body
        self.status = 200
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return self.url_of(LOOPBACK)

    def url_of(self, host: str) -> str:
        return f"http://{host}:{self.port}/metrics"

    async def start(self) -> "MetricsPage":
        self._runner, _ = await listen([web.get("/metrics", self._answer)])
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        await self.gate.wait()
        self.reads += 1
        return web.Response(text=self.body, status=self.status)
