"""The least a Python proxy can do: granian in front, aiohttp behind, bytes forwarded as they come.

    BENCH_UPSTREAM=http://127.0.0.1:PORT granian --interface rsgi tests.bench.standins.proxy:app

No authentication, no cache, no tracing.
"""

import asyncio
import os
from typing import Any

import aiohttp


class Proxy:
    def __init__(self) -> None:
        self._upstream = os.environ["BENCH_UPSTREAM"]
        self._session: aiohttp.ClientSession

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        body = await protocol()
        headers = {"content-type": "application/json", "authorization": scope.headers.get("authorization") or ""}
        async with self._session.post(self._upstream + scope.path, data=body, headers=headers) as response:
            content_type = response.content_type
            if content_type == "text/event-stream":
                out = protocol.response_stream(response.status, [("content-type", content_type)])
                async for chunk in response.content.iter_any():
                    await out.send_bytes(chunk)
            else:
                protocol.response_bytes(response.status, [("content-type", content_type)], await response.read())


app = Proxy()
