"""A server with OpenAI's API that says what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.http_server import serving


class Server:
    """A server with OpenAI's API that answers with `text`, cut into `size` characters a chunk. `bodies` are what it got, `after` comes
    along with the end of a stream.
    """

    def __init__(self, text: str, size: int = 5) -> None:
        self.text, self.size = text, size
        self.bodies: list[dict[str, Any]] = []
        self.url, self.after = "", b""
        self.goes_on = asyncio.Event()  # after the first part
        self.goes_on.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.text())
        self.bodies.append(body)
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
        if not body.get("stream"):
            message = {"role": "assistant", "content": self.text}
            choice = {
                "index": 0,
                "message": message,
                "finish_reason": "stop",
                "logprobs": {"content": [{"token": self.text}]},
            }
            return web.json_response(head | {"choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for at in range(0, len(self.text), self.size):
            part = self.text[at : at + self.size]
            choice = {
                "index": 0,
                "delta": {"content": part},
                "logprobs": {"content": [{"token": part}]},
                "finish_reason": None,
            }
            await response.write(b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n")
            await self.goes_on.wait()
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        await response.write(b"data: " + json.dumps(head | end).encode() + b"\n\ndata: [DONE]\n\n" + self.after)
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Server"]:
        async def models(_: web.Request) -> web.Response:
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "x"}]})

        async with serving(web.get("/v1/models", models), web.post("/v1/chat/completions", self.answer)) as url:
            self.url = f"{url}/v1"
            yield self
