"""A gateway as a user runs it, to which `web` gives one random document after the other."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest
from aiohttp import web

from deploy.local.ports import LOOPBACK
from inference.contract import snapshot as policy
from inference.contract.rules import Degradation, Overlay, RouteRule
from inference.contract.snapshot import Snapshot, WarmUp
from tests.support.gateway.documents import random_documents
from tests.support.gateway.process import SMALL, Gateway, StartGateway, a_snapshot, unique, with_pool
from tests.support.gateway.triton_double import StartDouble
from tests.support.wait import eventually_async

MANY, EVERY = 1000, 25
LAST = 2_000_000


class Web:
    """Answers as `web` does: with the document, and the next one to whoever has it; with the last one it waits. Now and then
    it waits until a client of the gateway has been `answered`.
    """

    def __init__(self) -> None:
        self.documents: list[bytes] = []
        self.fetched = 0
        self.url = ""
        self.answered = asyncio.Event()

    async def serve(self, request: web.Request) -> web.Response:
        assert request.query["wait_s"]
        seen = int(request.headers.get("If-None-Match", '"-1"').strip('"'))
        if seen == len(self.documents) - 1:
            await asyncio.sleep(float(request.query["wait_s"]))
            return web.Response(status=304)
        if seen % EVERY == 0:
            self.answered.clear()
            await self.answered.wait()
        self.fetched = seen + 1
        return web.Response(body=self.documents[self.fetched], headers={"ETag": f'"{self.fetched}"'})


@pytest.fixture
async def source() -> AsyncIterator[Web]:
    source = Web()
    app = web.Application()
    app.router.add_get("/internal/snapshot", source.serve)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    assert site._server is not None
    source.url = f"http://{LOOPBACK}:{site._server.sockets[0].getsockname()[1]}/internal/snapshot"  # type: ignore[attr-defined]
    yield source
    await runner.cleanup()


def full(address: str) -> Snapshot:
    """A document with some of everything."""
    given = a_snapshot(
        address,
        endpoints_version=5,
        rules=(RouteRule("p/r", SMALL, tiers=("standard",), min_prompt_tokens=3),),
        overlay=Overlay(
            7,
            "d1",
            2**52,
            degradation=(Degradation(SMALL, "standard", 1, "short", max_output_tokens=8),),
            canary={SMALL: {SMALL: 100}},
        ),
    )
    return with_pool(given, SMALL, warm_up=WarmUp(1))


async def ask(gateway: Gateway) -> tuple[int, dict[str, object]]:
    body = json.dumps({"model": SMALL, "messages": unique()}).encode()
    status, _, text = await asyncio.to_thread(gateway.ask, "POST", "/v1/chat/completions", body)
    return status, json.loads(text)


async def test_a_thousand_random_documents_never_stop_a_started_gateway(
    source: Web, start_gateway: StartGateway, start_double: StartDouble
) -> None:
    double = await start_double()
    given = full(double.address)
    text = policy.encode(given)
    last = policy.encode(msgspec.structs.replace(given, version=LAST))
    source.documents = [text, *random_documents(text, MANY, seed=14), last]
    gateway = await asyncio.to_thread(start_gateway, None, snapshot_url=source.url)
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"].get(SMALL, {}).get("ready") == 1))
    pid = gateway.process.pid
    statuses: Counter[int] = Counter()

    async def client() -> None:
        while source.fetched < len(source.documents) - 1:
            status, answer = await ask(gateway)
            assert ("choices" in answer) is (status == 200), answer
            assert set(answer) <= {"error"} or status == 200, answer
            statuses[status] += 1
            source.answered.set()
            assert gateway.process.alive

    await asyncio.gather(*(client() for _ in range(2)))
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["policy_version"] == LAST))
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 1))
    assert (await ask(gateway))[0] == 200
    assert statuses[200] and not statuses[500], statuses
    assert statuses.total() >= MANY / EVERY
    refused = gateway.metric("weir_gateway_policy_refused_total")
    assert 100 < refused < MANY
    assert gateway.process.alive and gateway.process.pid == pid
    bad = re.compile(r"snapshot\.failed|task\.failed|flight\.failed|Traceback")
    assert not [line for line in gateway.log.read_text().splitlines() if bad.search(line)]
