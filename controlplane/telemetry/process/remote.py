"""Keeps the policy snapshot and the scrape targets of a control plane elsewhere in files, which this process reads as on one machine."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import structlog

from inference.contract import snapshot_file

from ..ingest.scrape.targets import FILE

log = structlog.get_logger(__name__)
WAIT_S = 25.0
"""How long web may keep a question for a change."""
TARGETS_EVERY_S = 10.0
PAUSE_S = 2.0
_TIMEOUT = aiohttp.ClientTimeout(total=WAIT_S + 10.0, connect=5.0)


class Remote:
    """`url` is where web serves the snapshot; the targets are beside it. What cannot be fetched stays as it was."""

    def __init__(self, url: str, token: str, snapshot: Path, home: Path) -> None:
        self._snapshot_url = url
        self._targets_url = url.rpartition("/")[0] + "/scrape-targets"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._snapshot, self._targets = snapshot, home / FILE
        self._problems: dict[str, str] = {}

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, headers=self._headers) as session:
            await asyncio.gather(self._follow_snapshot(session), self._follow_targets(session))

    async def _follow_snapshot(self, session: aiohttp.ClientSession) -> None:
        etag = ""
        while True:
            known = {"If-None-Match": etag} if etag else {}
            answer = await self._get(session, self._snapshot_url, {"wait_s": str(WAIT_S)}, known)
            if answer is None:
                await asyncio.sleep(PAUSE_S)
                continue
            body, etag = answer[0], answer[1] or etag
            if body is not None:
                snapshot_file.write_changed(self._snapshot, body)

    async def _follow_targets(self, session: aiohttp.ClientSession) -> None:
        while True:
            answer = await self._get(session, self._targets_url, {}, {})
            if answer is not None and answer[0] is not None:
                snapshot_file.write_changed(self._targets, answer[0])
            await asyncio.sleep(TARGETS_EVERY_S)

    async def _get(
        self, session: aiohttp.ClientSession, url: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[bytes | None, str] | None:
        """Body (None where it is the same still) and etag; None where it cannot be had."""
        problem = ""
        try:
            async with session.get(url, params=query, headers=headers, allow_redirects=False) as response:
                if response.status in (200, 304):
                    body = await response.read() if response.status == 200 else None
                    return body, response.headers.get("ETag", "")
                problem = f"it answers {response.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            if problem and self._problems.get(url) != problem:
                log.warning("telemetry.not_fetched", url=url, reason=problem, effect="the last one is used")
            self._problems[url] = problem
        return None
