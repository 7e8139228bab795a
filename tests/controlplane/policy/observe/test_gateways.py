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
