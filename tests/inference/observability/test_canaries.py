"""What clients and servers say is nowhere afterwards: strings in prompts and in servers' error texts, through a gateway and a telemetry
process as users run them, and a Redis.
"""

import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from aiohttp import web
from openai import APIError

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.store import Store
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot
from tests.support.gateway.process import Gateway, StartGateway, a_snapshot, with_pool
from tests.support.servers.standins import MODEL, VLlm
from tests.support.telemetry.process import Running
from tests.support.wait import eventually, eventually_async

FAULTS = (
    "",
    "400",
    "401",
    "403",
    "404",
    "413",
    "422",
    "429",
    "500",
    "503",
    "529",
    "event 400",
    "event 500",
    "event 503",
    "no chunk",
    "no json",
)


class Echo(VLlm):
    """Repeats the prompt in whatever it says of a failure, as servers do in errors of validation and in their tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, bool]] = set()

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = json.dumps(body.get("messages", body.get("prompt")))
        fault = prompt[prompt.index("<") + 1 : prompt.index(">")]
        streams = body.get("stream", False)
        self.seen.add((fault, streams))
        if not fault:
            return await super()._infer(request)
        said = f"could not serve this: {prompt} in a batch"
        if fault == "no json":
            return web.Response(status=500, text=said)
        if fault.isdigit() or not streams:
            return self.error(int(fault) if fault.isdigit() else 500, said)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if fault == "no chunk":
            event: Any = {"choices": [{"index": said, "finish_reason": said}]}
        else:
            event = {"error": {"message": said, "type": "x", "code": int(fault.split()[1])}}
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        return response


async def test_what_prompts_and_servers_say_is_nowhere_afterwards(
    start_gateway: StartGateway, redis_url: str, tmp_path: Path
) -> None:
    canary = f"canary{secrets.token_hex(8)}"
    server = Echo()
    await server.start()
    telemetry = Running(tmp_path / "home").start().ready()
    try:
        snapshot = _snapshot(server.url)
        otlp = f"http://127.0.0.1:{telemetry.http_port}"
        gateway = await asyncio.to_thread(
            lambda: start_gateway(snapshot, redis_url=redis_url, otlp=otlp, user_hash_key="k" * 32)
        )
        asked = await _ask(gateway, canary)
        assert server.seen == {(fault, streams) for fault in FAULTS for streams in (False, True)}
        stored = await asyncio.to_thread(_stored, telemetry, asked)
        kept = {
            "log of the gateway": gateway.log.read_text(),
            "log of telemetry": telemetry.log.read_text(),
            **{page: gateway.get(page)[1] for page in ("/metrics", "/signals", "/readyz")},
            "Redis": _redis(redis_url),
            **stored,
        }
        for where, text in kept.items():
            assert "model.failed" in text or where != "log of the gateway", "the failures are in the log"
            assert canary not in text, where
        assert "it said" in kept["log of the gateway"] and "it said" in stored["spans"], (
            "of servers' texts the length is kept"
        )
        assert "characters" in stored["spans"] and stored["rows"].count("LedgerRow") == asked

        await asyncio.to_thread(gateway.obey, with_pool(snapshot, MODEL, keep_error_texts=True))
        with pytest.raises(APIError):
            await _one(gateway, canary, "500", stream=False)
        assert canary in gateway.log.read_text(), "where the owner of the pool allows it"
    finally:
        telemetry.stop()
        await server.stop()


def _snapshot(url: str) -> Snapshot:
    pool = Pool(MODEL, "v", "here", MODEL, "", (Endpoint("r0", url=url),), protocol="openai", server="vllm")
    model = Model(MODEL, (Route(MODEL),), tokenizer="estimate")
    tenants = tuple(msgspec.structs.replace(tenant, audits_texts=True) for tenant in a_snapshot().tenants)
    return msgspec.structs.replace(a_snapshot(), models=(model,), pools=(pool,), tenants=tenants)


async def _ask(gateway: Gateway, canary: str) -> int:
    """Requests of every fault, whole and as a stream; how many."""
    asked = 0
    for fault in FAULTS:
        for stream in (False, True):
            await eventually_async(lambda: gateway.ready()["pools"][MODEL]["ready"] == 1)
            asked += 1
            if fault:
                with pytest.raises(APIError):
                    await _one(gateway, canary, fault, stream=stream)
            else:
                await _one(gateway, canary, fault, stream=stream)
    return asked


async def _one(gateway: Gateway, canary: str, fault: str, *, stream: bool) -> None:
    messages: Any = [{"role": "user", "content": f"<{fault}> {canary} {secrets.token_hex(4)}"}]
    answer = await gateway.client().chat.completions.create(
        model=MODEL,
        messages=messages,
        temperature=0,
        stream=stream,
        user=canary,
        extra_headers={"idempotency-key": canary},
    )
    if stream:
        async for _ in answer:  # type: ignore[union-attr]
            pass


def _stored(telemetry: Running, requests: int) -> dict[str, str]:
    """The ledger's rows and all spans in the store, once that many requests are there."""

    def rows(store: Store) -> list[LedgerRow]:
        now_ns = time.time_ns()
        return store.requests.page(Window(now_ns - 3_600 * 10**9, now_ns + 60 * 10**9), limit=1_000).rows

    with telemetry.store() as store:
        eventually(lambda: len(rows(store)) == requests)
        found = rows(store)
        spans = [span for row in found for span in store.requests.trace(row.trace_id)]
    return {"spans": repr(spans), "rows": repr(found)}


def _redis(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        return repr({key: client.dump(key) for key in client.scan_iter("*")})
