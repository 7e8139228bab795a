"""The policy snapshot over HTTP, as `web` serves it."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from aiohttp import web

from inference.contract import snapshot as policy
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import StartGateway
from tests.support.http_server import serving
from tests.support.wait import eventually_async

TOKEN = "of-web"


class Web:
    """Answers as `web` does: with the newest document, and waits with it for whoever has it."""

    def __init__(self) -> None:
        self.documents: list[bytes] = []
        self.url = ""

    async def serve(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        newest = f'"{len(self.documents)}"'
        if request.headers.get("If-None-Match") == newest:
            await asyncio.sleep(min(0.05, float(request.query["wait_s"])))
            return web.Response(status=304)
        return web.Response(body=self.documents[-1], headers={"ETag": newest})


@pytest.fixture
async def source() -> AsyncIterator[Web]:
    source = Web()
    async with serving(web.get("/internal/snapshot", source.serve)) as url:
        source.url = f"{url}/internal/snapshot"
        yield source


async def test_each_new_document_is_obeyed_and_a_bad_one_is_not(
    source: Web, start_gateway: StartGateway, snapshot: Snapshot
) -> None:
    source.documents = [policy.encode(snapshot)]
    gateway = await asyncio.to_thread(start_gateway, None, snapshot_url=source.url, snapshot_token=TOKEN)

    async def obeys(version: int) -> None:
        await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["policy_version"] == version))

    await obeys(snapshot.version)
    source.documents.append(b"{")
    await eventually_async(lambda: asyncio.to_thread(lambda: bool(gateway.ready()["policy_error"])))
    await obeys(snapshot.version)
    source.documents.append(policy.encode(msgspec.structs.replace(snapshot, version=7)))
    await obeys(7)
    assert gateway.ready()["policy_error"] == ""
