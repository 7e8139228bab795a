"""A server's metrics page."""

import asyncio

from aiohttp import web

from deploy.local.ports import LOOPBACK
from tests.support.http_server import LoopServer


class MetricsPage(LoopServer):
    """At `url`: `body` with `status`, once `gate` is set. `reads` counts how often it was given."""

    path = "/metrics"

    def __init__(self, body: str = "") -> None:
        self.body = body
        self.status = 200
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def handlers(self) -> list[web.RouteDef]:
        return [web.get(self.path, self._answer)]

    def url_of(self, host: str) -> str:
        return self.url.replace(LOOPBACK, host)

    async def _answer(self, request: web.Request) -> web.Response:
        await self.gate.wait()
        self.reads += 1
        return web.Response(text=self.body, status=self.status)
