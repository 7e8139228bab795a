"""Sends a probe to a component, over HTTP or Redis' protocol. Every answer is bounded in size."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import quote

import aiohttp
from redis.asyncio import Redis
from redis.maint_notifications import MaintNotificationsConfig

from controlplane.fleet.observe.core import ready, redis_info, triton
from controlplane.fleet.observe.core.reading import Reading

Probe = Callable[[aiohttp.ClientSession], Awaitable[Reading]]

MAX_ANSWER_BYTES = 4 << 20


async def get(session: aiohttp.ClientSession, url: str, token: str = "") -> tuple[int, str]:
    """Status and text of `url`. Raises aiohttp.ClientError, TimeoutError; ValueError when the answer is too long."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        body = await response.content.read(MAX_ANSWER_BYTES + 1)
        while len(body) <= MAX_ANSWER_BYTES and (part := await response.content.read(MAX_ANSWER_BYTES + 1 - len(body))):
            body += part
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError(f"{url} answers with more than {MAX_ANSWER_BYTES >> 20} MiB")
        return response.status, body.decode(errors="replace")


def process(url: str, token: str, names: ready.Names) -> Probe:
    """The probe of one of our own processes at `url`."""

    async def probe(session: aiohttp.ClientSession) -> Reading:
        ready_status, ready_text = await get(session, f"{url}/readyz")
        metrics_status, metrics_text = await get(session, f"{url}/metrics", token)
        return ready.reading(ready_status, ready_text, metrics_status, metrics_text, names)

    return probe


def redis(url: str) -> Probe:
    async def probe(_: aiohttp.ClientSession) -> Reading:
        # Only a managed Redis has maintenance notifications. A plain one counts their query as an error.
        no_notifications = MaintNotificationsConfig(enabled=False)
        async with Redis.from_url(url, decode_responses=True, maint_notifications_config=no_notifications) as client:
            return redis_info.reading(await client.info())

    return probe


def replica(http: str, metrics: str, model: str) -> Probe:
    """The probe of a Triton at the address `http`, with its metrics at the address `metrics` (empty: none)."""

    async def probe(session: aiohttp.ClientSession) -> Reading:
        status, _ = await get(session, f"http://{http}/v2/health/ready")
        if status != triton.OK:
            return triton.reading(status, "", "", model)
        _, stats = await get(session, f"http://{http}/v2/models/stats")
        metrics_text = (await get(session, f"http://{metrics}/metrics"))[1] if metrics else ""
        seen = triton.reading(status, stats, metrics_text, model)
        if seen.state != "up":
            return seen
        config_status, config = await get(session, f"http://{http}/v2/models/{quote(model, safe='')}/config")
        return (
            seen if config_status != triton.OK else replace(seen, figures={**seen.figures, **triton.batching(config)})
        )

    return probe
