"""The gateway's application behind granian, for comparison with the gateway's own server.

    WEIR_…=… granian --interface rsgi tests.bench.standins.edge:app

It has none of the bounds of `inference.wires.http`. A client that leaves ends its request where `BENCH_DISCONNECT` is set.
"""

import asyncio
import gc
import os
import time
from typing import Any

from inference.app import Gateway
from inference.config import load
from inference.wires.http.exchange import Headers, Request

_WATCH = bool(os.environ.get("BENCH_DISCONNECT"))


class Fields:
    """Header fields as the application reads them: by lower-case names in bytes."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Any) -> None:
        self._fields = fields

    def get(self, name: bytes, default: bytes | None = None) -> bytes | None:
        value = self._fields.get(name.decode())
        return value.encode() if value is not None else default


class Out:
    """Implements `http.Exchange` on granian's protocol. Writing to a stream is queued, because there it is a coroutine."""

    def __init__(self, scope: Any, protocol: Any) -> None:
        self._scope, self._protocol = scope, protocol
        self._queue: asyncio.Queue[bytes | None] | None = None
        self.pump: asyncio.Task[None] | None = None
        self.started = self.known = False
        self.blocked = False
        self.more: Headers = []

    @property
    def peer(self) -> str:
        return str(self._scope.client).rpartition(":")[0]

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.started = True
        self._protocol.response_bytes(status, _text(headers), body)

    def start_stream(self, headers: Headers, status: int = 200) -> None:
        self.started = True
        self._queue = asyncio.Queue()
        self.pump = asyncio.get_running_loop().create_task(self._pump(_text(headers), self._queue))

    def write(self, data: bytes) -> None:
        assert self._queue is not None
        self._queue.put_nowait(data)

    def end_stream(self, data: bytes = b"") -> None:
        assert self._queue is not None
        if data:
            self._queue.put_nowait(data)
        self._queue.put_nowait(None)

    def abort(self) -> None:
        if self.pump is not None:
            self.pump.cancel()

    async def drained(self, timeout_s: float) -> None:
        return None

    async def _pump(self, headers: list[tuple[str, str]], queue: "asyncio.Queue[bytes | None]") -> None:
        stream = self._protocol.response_stream(200, headers)
        while (data := await queue.get()) is not None:
            await stream.send_bytes(data)


def _text(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in headers]


class App:
    def __init__(self) -> None:
        self._gateway: Gateway

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self._gateway = Gateway(load())
        self._gateway.start()
        gc.collect()
        gc.freeze()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        body = await protocol()
        headers: Any = Fields(scope.headers)
        request = Request(scope.method, scope.path, headers, body, time.perf_counter_ns())
        out = Out(scope, protocol)
        if not _WATCH:
            await self._serve(request, out)
            return
        serving = asyncio.current_task()
        leaving = asyncio.ensure_future(protocol.client_disconnect())
        leaving.add_done_callback(lambda left: None if left.cancelled() or serving is None else serving.cancel())
        try:
            await self._serve(request, out)
        finally:
            leaving.cancel()

    async def _serve(self, request: Request, out: Out) -> None:
        await self._gateway(request, out)
        if out.pump is not None:
            await out.pump


app = App()
