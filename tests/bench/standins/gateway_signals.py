"""A gateway that answers nothing but its signals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.support.http_server import ThreadedServer


@contextmanager
def served(signals: Callable[[], bytes]) -> Iterator[str]:
    """Serve the body that `signals` makes for each request. Yields the address."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=signals())

    with ThreadedServer(web.get("/{path:.*}", answer)) as server:
        yield server.url
