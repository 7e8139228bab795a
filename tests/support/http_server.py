"""HTTP servers of tests: what a test wants to be asked, at a free port of loopback."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from aiohttp import web

from deploy.local.ports import LOOPBACK

MAX_BODY_BYTES = 1 << 30
T = TypeVar("T")


async def listen(routes: Iterable[web.RouteDef], tls: ssl.SSLContext | None = None) -> tuple[web.AppRunner, str]:
    """A server of these routes, and its URL without a path. A handler whose client has left is cancelled."""
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.add_routes(routes)
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
    return runner, f"http{'s' if tls else ''}://{LOOPBACK}:{runner.addresses[0][1]}"


@asynccontextmanager
async def serving(*routes: web.RouteDef, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server of these routes, until the block ends."""
    runner, url = await listen(routes, tls)
    try:
        yield url
    finally:
        await runner.cleanup()


class Loop:
    """An event loop on a thread of its own, for tests that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def end(self) -> None:
        self.call(self._loop.stop)
        self._thread.join(120)
        self._loop.close()


class Server(Protocol):
    async def start(self) -> object: ...
    async def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


@contextmanager
def on_a_thread(server: S) -> Iterator[S]:
    """The server, started on a loop of its own, until the block ends."""
    loop = Loop()
    loop.run(server.start())
    try:
        yield server
    finally:
        loop.run(server.stop())
        loop.end()


class LoopServer:
    """A server of its `handlers` on the loop that starts it. Its `url` ends with `path`."""

    path = url = ""
    _runner: web.AppRunner | None = None

    def handlers(self) -> list[web.RouteDef]:
        raise NotImplementedError

    async def start(self, tls: ssl.SSLContext | None = None) -> Self:
        self._runner, url = await listen(self.handlers(), tls)
        self.url = url + self.path
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


class ThreadedServer:
    """A server of these routes on a thread of its own; also a context. Its `url` ends with `path`."""

    path = ""

    def __init__(self, *routes: web.RouteDef) -> None:
        self.url = ""
        self._routes = routes

    def start(self) -> Self:
        self.loop = Loop()
        self._runner, url = self.loop.run(listen(self._routes))
        self.url = url + self.path
        return self

    def stop(self) -> None:
        self.loop.run(self._runner.cleanup())
        self.loop.end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()
