"""What a gateway's answer at `/signals` means."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controlplane.policy.observe.gateways import Gateways


@pytest.mark.parametrize(("status", "may_have_traffic"), [(404, False), (401, True), (503, True), (200, True)])
def test_only_what_has_no_signals_is_no_gateway(status: int, may_have_traffic: bool) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="not signals")

    async def read() -> None:
        application = web.Application()
        application.router.add_get("/signals", answer)
        async with TestServer(application) as server, aiohttp.ClientSession() as session:
            url = str(server.make_url("")).rstrip("/")
            gateways = Gateways(lambda: (url,), "")
            await gateways.read_once(session)
            heard = gateways.traffic().gateways[url]
            assert heard.problem.startswith(url) and heard.may_have_traffic is may_have_traffic

    asyncio.run(read())


def test_the_token_goes_to_no_stranger() -> None:
    """As to a pod of somebody else's chart."""
    tokens: dict[str, str] = {}

    async def answer(request: web.Request) -> web.Response:
        tokens[request.path] = request.headers.get("Authorization", "")
        return web.Response(status=401)

    async def read() -> None:
        application = web.Application()
        application.router.add_get("/{name}/signals", answer)
        async with TestServer(application) as server, aiohttp.ClientSession() as session:
            own, other = str(server.make_url("/own")), str(server.make_url("/other"))
            gateways = Gateways(lambda: (own, other), "secret", strangers=lambda: {other})
            await gateways.read_once(session)
            assert tokens == {"/own/signals": "Bearer secret", "/other/signals": ""}
            assert "has no label weir.dev/component: gateway" in gateways.traffic().problem()

    asyncio.run(read())
