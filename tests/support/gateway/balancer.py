"""A TCP balancer, as in front of gateways in a cluster. It follows `/readyz`, and does not read HTTP otherwise."""

import asyncio
import contextlib
import itertools

from deploy.local.ports import LOOPBACK

_LOOK_S = 0.1
_TIMEOUT_S = 2.0
MAX_TO_NOTICE_S = _LOOK_S + _TIMEOUT_S
"""After so long it sends nothing to a backend that says that it is not ready."""


class Balancer:
    """New connections go in turn to the backends whose last `/readyz` was a 200; open ones stay where they are."""

    def __init__(self, *backends: int) -> None:
        self.port = 0
        self.ready: dict[int, bool] = dict.fromkeys(backends, False)
        self.refused = 0  # connections that no backend took
        self._turn = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> "Balancer":
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = [asyncio.ensure_future(self._watch(backend)) for backend in self.ready]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, backend: int) -> None:
        while True:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    self.ready[backend] = await _is_ready(backend)
            except TimeoutError:
                pass  # as kube-proxy, which waits for several: one late answer says nothing
            except OSError:
                self.ready[backend] = False
            await asyncio.sleep(_LOOK_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [backend for backend, is_ready in self.ready.items() if is_ready]
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, ready[next(self._turn) % len(ready)])
        except (OSError, ZeroDivisionError):
            self.refused += 1
            writer.close()
            return
        await asyncio.gather(hand_on(reader, far_writer), hand_on(far_reader, writer))


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _is_ready(port: int) -> bool:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()
