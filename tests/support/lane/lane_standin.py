"""A lane for tests of the gateway: it says what came, or behaves as `does` says."""

import asyncio
import threading
from typing import Any

from aiohttp import web

from deploy.local.ports import LOOPBACK


class LaneStandin:
    """`does`: `whole` reads the body and says its size, `early` refuses before it reads, `lost` reads it and says nothing."""

    def __init__(self) -> None:
        self.url = ""
        self.does = "whole"
        self.headers: dict[str, str] = {}
        self.begun = self.cut = 0  # requests, and bodies that did not come whole
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None

    def start(self) -> "LaneStandin":
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def stop(self) -> None:
        assert self._runner is not None
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/v1/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self.url = f"http://{LOOPBACK}:{self._runner.addresses[0][1]}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.begun += 1
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        if self.does == "early":
            return web.json_response({"error": {"message": "no", "code": "refused_early"}}, status=400)
        size = 0
        try:
            async for part in request.content.iter_any():
                size += len(part)
        except (ConnectionError, web.RequestPayloadError, asyncio.IncompleteReadError):
            self.cut += 1
            raise
        if self.does == "lost":
            assert request.transport is not None
            request.transport.abort()
        said: dict[str, Any] = {"size": size, "query": request.query_string, "path": request.path}
        return web.json_response(said)
