"""TLS in front of a server that speaks plain text, as a sidecar would do it."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator

from deploy.local.ports import LOOPBACK
from tests.support.gateway.balancer import hand_on
from tests.support.gateway.tls import Issued
from tests.support.http_server import Loop


@contextlib.contextmanager
def tls_front(plain_port: int, issued: Issued) -> Iterator[int]:
    """Yields the port of `localhost` on which the certificate is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    loop = Loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, there = await asyncio.open_connection(LOOPBACK, plain_port)
        await asyncio.gather(hand_on(reader, there), hand_on(behind, writer))

    server = loop.run(asyncio.start_server(connected, LOOPBACK, 0, ssl=context))
    yield server.sockets[0].getsockname()[1]
    loop.run(_end(server))
    loop.end()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
