"""How long some gateway still serves a cached answer after it was purged.

The control plane writes the snapshot before it answers a purge, so time counts from there. Each gateway has a question of its own, because
the first that obeys stores an answer that the others may serve.
"""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from inference.contract.snapshot import Tier
from inference.contract.snapshot_file import write
from inference.contract.snapshot_parts import CacheRule
from tests.bench.figures import Figure
from tests.bench.limits.gateways import MAX_TOKENS, MODEL, snapshot, until_ready
from tests.bench.processes import start_gateway, start_redis
from tests.support.gateway.triton_double import TritonDouble
from tests.support.wait import eventually_async

GATEWAYS, PURGES = 4, 50
KEY = "1"


async def measure(folder: Path, stack: ExitStack) -> list[Figure]:
    double = await TritonDouble().start()
    try:
        path, policy = folder / "purged.json", snapshot(double.address, (Tier(KEY),))
        models = [replace(policy.models[0], cache=CacheRule(purges=number)) for number in range(PURGES + 1)]
        write(path, replace(policy, models=(models[0],)))
        env = {"WEIR_REDIS_URL": start_redis(stack, folder).url, "WEIR_SNAPSHOT_PATH": str(path)}
        ports = [start_gateway(stack, f"gateway-{number}", policy, folder, env)[0] for number in range(GATEWAYS)]
        took_ms = list[float]()
        async with aiohttp.ClientSession() as session:
            for port in ports:
                await until_ready(session, port, "up")
            for number, model in enumerate(models[1:], 2):
                for port in ports:
                    await eventually_async(lambda port=port: _is_hit(session, port))  # type: ignore[misc]
                write(path, replace(policy, version=number, models=(model,)))
                took_ms += await asyncio.gather(*(_until_missed_ms(session, port) for port in ports))
    finally:
        await double.stop()
    about = f"the longest of {PURGES} purges until the last of {GATEWAYS} gateways obeys"
    return [Figure("semantic.purge_seen_ms", max(took_ms), "ms", about)]


async def _until_missed_ms(session: aiohttp.ClientSession, port: int) -> float:
    began = time.perf_counter()
    while await _is_hit(session, port):
        pass
    return (time.perf_counter() - began) * 1000


async def _is_hit(session: aiohttp.ClientSession, port: int) -> bool:
    content = f"Why did the queue of {port} grow?"
    document = {
        "model": MODEL,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
    }
    url, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}
    async with session.post(url, json=document, headers=headers) as response:
        await response.read()
        return response.headers["x-weir-cache"].startswith("hit")
