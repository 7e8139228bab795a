"""A server that takes webhooks."""

from aiohttp import web

from tests.support.http_server import ThreadedServer


class CallbackReceiver(ThreadedServer):
    """It answers with `statuses`, one each, and then with 204."""

    path = "/hook"

    def __init__(self) -> None:
        super().__init__(web.post(self.path, self._take))
        self.statuses: list[int] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []  # headers by their lower-case names, and body

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.taken.append(({name.lower(): value for name, value in request.headers.items()}, body))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204)
