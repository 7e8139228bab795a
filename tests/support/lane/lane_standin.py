"""A lane for tests of the gateway: it says what came, or behaves as `does` says."""

import asyncio
from typing import Any

from aiohttp import web

from tests.support.http_server import ThreadedServer


class LaneStandin(ThreadedServer):
    """`does`: `whole` reads the body and says its size, `early` refuses before it reads, `lost` reads it and says nothing."""

    def __init__(self) -> None:
        super().__init__(web.route("*", "/v1/{path:.*}", self._answer))
        self.does = "whole"
        self.headers: dict[str, str] = {}
        self.begun = self.cut = 0  # requests, and bodies that did not come whole

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.begun += 1
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        if self.does == "early":
            return web.json_response({"error": {"message": "no", "code": "refused_early"}}, status=400)
        size = 0
        try:
            async for part in request.content.iter_any():
                size += len(part)
        except (ConnectionError, web.RequestPayloadError, asyncio.CancelledError):
            self.cut += 1
            raise
        if self.does == "lost":
            assert request.transport is not None
            request.transport.abort()
        said: dict[str, Any] = {"size": size, "query": request.query_string, "path": request.path}
        return web.json_response(said)
