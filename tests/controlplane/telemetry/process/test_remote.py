"""Snapshot and targets from a web process elsewhere."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controlplane.telemetry.process import remote
from controlplane.telemetry.process.remote import Remote
from tests.support.http_server import serving
from tests.support.wait import eventually_async


class Web:
    """Answers as web does; the contract of the real one is in tests of `controlplane.fleet`."""

    def __init__(self) -> None:
        self.snapshot: dict[str, Any] = {"version": 1}
        self.targets: list[dict[str, str]] = [{"job": "gateway", "url": "http://gateway/metrics"}]
        self.away = False
        self.tokens: set[str] = set()
        self.url = ""

    async def serve_snapshot(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers.get("Authorization", ""))
        if self.away:
            return web.Response(status=503)
        etag = f'"{self.snapshot["version"]}"'
        if request.headers.get("If-None-Match") == etag:
            await asyncio.sleep(0.02)
            return web.Response(status=304, headers={"ETag": etag})
        return web.json_response(self.snapshot, headers={"ETag": etag})

    async def serve_targets(self, request: web.Request) -> web.Response:
        return web.Response(status=503) if self.away else web.json_response(self.targets)


@pytest.fixture
async def elsewhere() -> AsyncIterator[Web]:
    made = Web()
    async with serving(
        web.get("/internal/snapshot", made.serve_snapshot), web.get("/internal/scrape-targets", made.serve_targets)
    ) as url:
        made.url = f"{url}/internal/snapshot"
        yield made


def read(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else None


async def test_files_follow_what_web_serves_and_stay_while_it_is_away(
    elsewhere: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSE_S", 0.02)
    monkeypatch.setattr(remote, "TARGETS_EVERY_S", 0.02)
    snapshot = tmp_path / "snapshot.json"
    task = asyncio.create_task(Remote(elsewhere.url, "secret", snapshot, tmp_path).run())
    try:
        await eventually_async(lambda: read(snapshot) == {"version": 1})
        await eventually_async(lambda: read(tmp_path / "scrape-targets.json") == elsewhere.targets)
        elsewhere.snapshot = {"version": 2}
        await eventually_async(lambda: read(snapshot) == {"version": 2})
        elsewhere.away = True
        elsewhere.snapshot = {"version": 3}
        elsewhere.targets = []
        await asyncio.sleep(0.1)
        assert read(snapshot) == {"version": 2}
        elsewhere.away = False
        await eventually_async(lambda: read(snapshot) == {"version": 3})
        await eventually_async(lambda: read(tmp_path / "scrape-targets.json") == [])
        assert elsewhere.tokens == {"Bearer secret"}
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
