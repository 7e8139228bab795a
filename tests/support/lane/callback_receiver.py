"""A server that takes webhooks."""

import asyncio
import threading

from aiohttp import web

from deploy.local.ports import LOOPBACK


class CallbackReceiver:
    """At `url`, on a thread of its own. It answers with `statuses`, one each, and then with 204."""

    def __init__(self) -> None:
        self.url = ""
        self.statuses: list[int] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []  # headers by their lower-case names, and body
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None

    def start(self) -> "CallbackReceiver":
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def stop(self) -> None:
        assert self._runner is not None
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self.url = f"http://{LOOPBACK}:{self._runner.addresses[0][1]}/hook"

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.taken.append(({name.lower(): value for name, value in request.headers.items()}, body))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204)
