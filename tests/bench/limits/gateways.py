"""What gateways that are measured obey, and requests to them."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp

from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.bench.processes import BenchError

MODEL = "chat-small"
MAX_TOKENS = 8
_SERIALS = count()
_PATIENCE_S = 60.0


@dataclass
class Answers:
    """What requests were answered: how many with each status, the tokens used, and the seconds that all took."""

    statuses: dict[int, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def let_in(self) -> int:
        return self.statuses.get(200, 0)


def snapshot(triton: str, tiers: tuple[Tier, ...], places: int = 64, waiting: int = 256) -> Snapshot:
    """A tenant for each tier, whose key is the tier's name."""
    pool = Pool("pool", MODEL, "local", MODEL, "1", (Endpoint("r0", triton),), places, waiting)
    return Snapshot(
        version=1,
        models=(Model(MODEL, (Route("pool"),)),),
        pools=(pool,),
        tiers=tiers,
        tenants=tuple(Tenant(f"tenant-{tier.name}", tier.name, (key_digest(tier.name),)) for tier in tiers),
    )


async def until_ready(session: aiohttp.ClientSession, port: int, cache: str = "off") -> None:
    """Return once the gateway's replica is up and its cache is in this state. Raises BenchError."""
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
            page: dict[str, Any] = await response.json()
        if page["cache"] == cache and all(pool["ready"] for pool in page["pools"].values()):
            return
        await asyncio.sleep(0.05)
    raise BenchError(f"the gateway on port {port} is not ready: {page}")


async def send(session: aiohttp.ClientSession, port: int, key: str, answers: Answers) -> None:
    """One request that no cache has."""
    content = f"Why did the queue grow? Request {next(_SERIALS)}"
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": MAX_TOKENS})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with session.post(url, data=body, headers=headers) as response:
        answer = await response.json()
    answers.statuses[response.status] = answers.statuses.get(response.status, 0) + 1
    if response.status == 200:
        answers.tokens += answer["usage"]["total_tokens"]
    else:
        reason = answer["error"].get("reason", answer["error"]["code"])
        answers.reasons[reason] = answers.reasons.get(reason, 0) + 1
