"""Reads the Prometheus pages of model servers, for the load that they report."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from inference.contract.address import parse_url
from inference.contract.server_metrics import ServerLoad, read_load
from inference.core.backend_errors import BackendError
from inference.core.routing.load import ReplicaLoad
from inference.wires.http.client import UNANSWERED, HttpClient, request_of
from inference.wires.resolver import Resolver

MAX_PAGE = 4 << 20
"""Bytes; more is not read."""
_CONNECT_S = 5.0
_MAX_PAUSE_S = 10.0


class MetricsPages:
    """One HTTP client for the pages of all servers. With `link_local` their names may point at such addresses."""

    def __init__(self, *, link_local: bool = False) -> None:
        self._client = HttpClient(Resolver(link_local=link_local), _CONNECT_S)

    async def signals(
        self, url: str, timeout_s: float, read: Callable[[bytes, float], ServerLoad] = read_load
    ) -> ServerLoad:
        """What the page at `url` says of the server's load; nothing is known where it cannot be read in time."""
        at_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                parts = parse_url(url, link_local=True)  # the resolver looks at what its name points at
                request = request_of("GET", parts, {"Accept": "text/plain"})
                status, _, page = await self._client.fetch(parts, request, MAX_PAGE)
        except (*UNANSWERED, TimeoutError, ValueError):
            return ServerLoad(at_s)
        return read(page, at_s)._replace(page=hash(page)) if status == 200 else ServerLoad(at_s)

    def close(self) -> None:
        self._client.close()


async def follow_load(
    load: ReplicaLoad, read: Callable[[float], Awaitable[ServerLoad]], interval_s: float, timeout_s: float
) -> None:
    """Read what a replica's server says of its load, again and again; seldom where it says nothing."""
    silent = 0
    await asyncio.sleep(random.random() * interval_s)  # noqa: S311  (so that gateways do not read all at once)
    while True:
        own, pending = load.own, load.pending
        try:
            signals = await read(timeout_s)
        except (BackendError, TimeoutError):
            signals = None
        if signals is not None and signals.known:
            load.sampled(signals, own, pending)
            silent = 0
        else:
            silent += 1
        await asyncio.sleep(min(max(interval_s, _MAX_PAUSE_S), interval_s * 2.0 ** min(silent, 20)))
