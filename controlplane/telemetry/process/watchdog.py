"""Kills an embedded store that hangs, so that it is started again."""

import asyncio

import aiohttp
import structlog

from .children import Child

log = structlog.get_logger(__name__)

EVERY_S, TIMEOUT_S = 5.0, 5.0
PATIENCE_S = 60.0
"""How long `/ping` may stay without an answer, s. The store's event loop answers it at once while statements run."""


async def watch(child: Child, url: str, every_s: float = EVERY_S, patience_s: float = PATIENCE_S) -> None:
    """Watch until cancelled. A store is killed only if it has answered since its start, because opening a large one takes long."""
    answered_s, of_start_s = 0.0, -1.0
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        while True:
            started_s = child.started_s
            try:
                async with session.get(url) as answer:
                    await answer.read()
                answered_s, of_start_s = loop.time(), started_s
            except (aiohttp.ClientError, OSError, TimeoutError):
                if of_start_s == child.started_s and loop.time() - answered_s > patience_s:
                    log.error("child.hung", child=child.name, remedy="it is killed and started again")  # noqa: TRY400
                    of_start_s = -1.0
                    child.kill()
            await asyncio.sleep(every_s)
