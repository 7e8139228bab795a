"""What is sent straight to a server and what is sent through the gateway: how many of two thousand requests, and of their answers,
differ beyond what docs/gateway.md names. SEED draws other requests.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.local.process import Managed
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.bench.figures import Figure, say
from tests.support.gateway.process import gateway_command
from tests.support.transparent.compare import Differences, compare
from tests.support.transparent.standin import MODEL, Recorder

REQUESTS = 2_000
KEY = "transparent"


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="weir-bench-transparent-") as folder:
        found = asyncio.run(_compared(Path(folder), int(os.environ.get("SEED") or 1)))
    for line in (*found.requests[:20], *found.answers[:20]):
        say(line[:2_000])
    yield Figure("transparent.compared", found.compared, "")
    yield Figure("transparent.request_diffs", len(found.requests), "")
    yield Figure("transparent.answer_diffs", len(found.answers), "")


def in_front_of(url: str, key: str) -> Snapshot:
    """A gateway's snapshot with the model of the recording server there."""
    pool = Pool("pool", "variant", "local", MODEL, "", (Endpoint("r0", url=url),), protocol="openai")
    model = Model(MODEL, (Route("pool"),), cache=CacheRule("never"), max_output_tokens=1 << 20)
    return Snapshot(1, (model,), (pool,), (Tier("standard"),), (Tenant("alice", "standard", (key_digest(key),)),))


async def _compared(folder: Path, seed: int) -> Differences:
    direct, behind = await Recorder().start(), await Recorder().start()
    command, port, _ = gateway_command(folder, in_front_of(behind.url, KEY))
    gateway = Managed(command, folder / "gateway.log")
    try:
        await asyncio.to_thread(lambda: gateway.start().wait_ready())
        return await compare(direct, behind, f"http://127.0.0.1:{port}/v1", KEY, seed, REQUESTS)
    finally:
        await asyncio.to_thread(gateway.stop)
        await direct.stop()
        await behind.stop()
