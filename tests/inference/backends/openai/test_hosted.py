"""A hosted API: no list of models, a key of its own header, a query, a client certificate, and a proxy on the way."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.local.ports import LOOPBACK
from inference.backends.openai.model import OpenAIModel
from inference.contract.credentials import Header
from inference.contract.snapshot import Tls
from inference.core.backend_errors import FailedError, UnreachableError
from tests.support.gateway.tls import issue
from tests.support.http_server import serving
from tests.support.servers.calls import CALL, Connect, chat, events_of
from tests.support.servers.standins import MODEL

ANSWER = {"model": MODEL, "choices": [{"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}]}
VERSION = "2024-10-21"
HEADERS = (Header("api-key", secret="hosted"), Header("x-team", "weir"))


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[str]:
    """Its URL: as Azure's, with a deployment in the path and the version of the API in the query."""

    async def answer(request: web.Request) -> web.Response:
        if (request.headers.get("api-key"), request.headers.get("x-team")) != ("k-1", "weir"):
            return web.json_response({"error": {"code": "401", "message": "Access denied"}}, status=401)
        if (request.method, request.path, request.query_string) != ("POST", "/d/gpt/chat/completions", f"v={VERSION}"):
            return web.json_response({"error": {"code": "404", "message": "Resource not found"}}, status=404)
        return web.json_response(ANSWER)

    own, clients = issue(folder, "server"), issue(folder, "client")
    (folder / "client-pair.pem").write_bytes(clients.certificate.read_bytes() + clients.key.read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(clients.certificate))
    context.load_cert_chain(own.certificate, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    async with serving(web.route("*", "/{path:.*}", answer), tls=context) as url:
        yield f"{url.replace(LOOPBACK, 'hosted.test')}/d/gpt?v={VERSION}"


@asynccontextmanager
async def a_proxy(status: str = "200 Connection established") -> AsyncIterator[tuple[str, list[str]]]:
    """Its URL, and what it is asked for. Every name is this machine to it."""
    asked: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while part := await reader.read(65536):
                writer.write(part)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        asked.append(f"{method} {target}")
        writer.write(f"HTTP/1.1 {status}\r\nVia: 1.1 squid\r\n\r\n".encode())
        if not status.startswith("200"):
            writer.close()
            return
        there = await asyncio.open_connection(LOOPBACK, int(target.rpartition(":")[2]))
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    async with server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", asked


async def test_it_is_called_as_it_wants_to_be(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "hosted").write_text("k-1\n")
    tls = Tls(ca="server.pem", server_name="localhost", certificate="client-pair.pem")
    async with hosted(tmp_path) as url, a_proxy() as (proxy, asked):

        def model(**other: Any) -> OpenAIModel:
            return connect(url, **{"server": "unlisted", "headers": HEADERS, "proxy": proxy, "tls": tls, **other})

        well = model()
        assert await well.ready(5)
        assert (await well.detect(5)).models == (MODEL,)
        events = await events_of(await well.generate(chat(), CALL))
        assert b'"yes"' in events[0].raw
        assert asked == [f"CONNECT {url.removeprefix('https://').partition('/')[0]}"], "one connection serves all"
        with pytest.raises(FailedError, match=r"'hosted'.* is not accepted there"):
            (tmp_path / "hosted").write_text("k-2")
            await well.ready(5)
        with pytest.raises(FailedError, match="'nothing' is neither in"):
            await model(headers=(Header("api-key", secret="nothing"),)).ready(5)
        with pytest.raises(UnreachableError):
            await model(tls=Tls(ca="server.pem", server_name="localhost")).ready(5)
        with pytest.raises(FailedError, match=r"server.pem and other.pem of its TLS cannot be used"):
            await model(tls=Tls(ca="server.pem", certificate="other.pem")).ready(5)
        with pytest.raises(FailedError, match="is the server “unlisted”"):
            (tmp_path / "hosted").write_text("k-1")
            await model(server="auto").detect(5)


async def test_a_proxy_that_refuses_is_said(connect: Connect, tmp_path: Path) -> None:
    async with a_proxy("403 Forbidden") as (proxy, _):
        with pytest.raises(UnreachableError, match=r"the proxy answered 'HTTP/1.1 403 Forbidden'"):
            await connect("https://hosted.test/v1", proxy=proxy, server="unlisted").ready(5)
