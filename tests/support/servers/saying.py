"""Servers with OpenAI's API that say what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

from tests.support.http_server import serving
from tests.support.servers.standins import VLlm


class Server(VLlm):
    """It answers with `text`, cut into `size` characters a chunk, each with its logprobs."""

    logprobs = True

    def __init__(self, text: str, size: int = 5) -> None:
        super().__init__()
        self.model = "m"
        self.tokens = tuple(text[at : at + size] for at in range(0, len(text), size))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Server"]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()


class Verbatim:
    """One that answers any request with the bytes of `parts`, as they are; what can be called among them is awaited. It waits for
    `begins` before.
    """

    def __init__(self) -> None:
        self.parts: Iterable[bytes | Callable[[], Awaitable[object]]] = []
        self.content_type = "text/event-stream"
        self.url, self.calls = "", 0
        self.begins = asyncio.Event()
        self.begins.set()
        self.status = 200

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        await self.begins.wait()
        response = web.StreamResponse(status=self.status, headers={"content-type": self.content_type})
        await response.prepare(request)
        for part in self.parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await part()
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Verbatim"]:
        async def models(_: web.Request) -> web.Response:
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "x"}]})

        async with serving(web.get("/v1/models", models), web.post("/v1/{path:.*}", self.answer)) as url:
            self.url = f"{url}/v1"
            yield self
