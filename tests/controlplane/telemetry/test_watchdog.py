"""A store that stops answering is killed. A store that has not answered yet is not killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from controlplane.telemetry.process.watchdog import watch
from tests.support.http_server import listen


class Store:
    """A child, and the server that answers its pings."""

    name = "store"

    def __init__(self) -> None:
        self.started_s = 1.0
        self.pinged, self.killed = asyncio.Event(), asyncio.Event()

    def kill(self) -> None:
        self.killed.set()

    async def ping(self, _: web.Request) -> web.Response:
        self.pinged.set()
        return web.Response(text="Ok.\n")


@contextlib.asynccontextmanager
async def watched(store: Store) -> AsyncIterator[web.AppRunner]:
    runner, url = await listen([web.get("/ping", store.ping)])
    task = asyncio.create_task(watch(store, f"{url}/ping", every_s=0.01, patience_s=0.05))  # type: ignore[arg-type]
    try:
        yield runner
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await runner.cleanup()


async def test_a_store_that_stops_answering_is_killed_once_for_each_start() -> None:
    store = Store()
    async with watched(store) as runner, asyncio.timeout(120):
        await store.pinged.wait()
        await runner.cleanup()
        await store.killed.wait()
        store.killed.clear()
        store.started_s = 2.0  # it is started again, and has not answered yet
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await store.killed.wait()
        assert not store.killed.is_set()
