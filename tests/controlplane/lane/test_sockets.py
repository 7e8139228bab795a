"""The same events over web sockets: a real web process on the database of a real lane."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controlplane.fleet.models import GatewayKey, Tenant, Tier
from controlplane.lane import feed, sockets
from controlplane.lane.threads import in_thread
from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import http_ok
from tests.support.gateway.process import KEY, OTHER_KEY
from tests.support.lane.listening import new_job, reading
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import Stack, give_key
from tests.support.start import Start

Socket = aiohttp.ClientWebSocketResponse


@pytest.fixture
def web(stack: Stack, start: Start) -> str:
    """The address of a web process beside the lane."""
    env = dict(stack.command.env)
    give_key(env)
    port = free_port()
    argv = (
        str(Path(sys.executable).parent / "granian"),
        *("--interface", "asginl", "--port", str(port)),
        "controlplane.asgi:application",
    )
    start(replace(stack.command, name="web", argv=argv, ready=partial(http_ok, port, "/healthz")))
    return f"ws://{LOOPBACK}:{port}/v1"


@asynccontextmanager
async def listening(url: str, key: str = KEY) -> AsyncIterator[Socket]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, headers={"authorization": f"Bearer {key}"}) as socket,
    ):
        yield socket


async def refused(url: str, key: str = KEY) -> tuple[int | None, str]:
    """Close code, and what the error says."""
    async with listening(url, key) as socket:
        said = json.loads((await socket.receive()).data)["error"]["code"]
        await socket.receive()
        return socket.close_code, said


async def every(socket: Socket) -> list[dict[str, Any]]:
    return [json.loads(message.data) async for message in socket]


@pytest.mark.processes
async def test_a_socket_has_the_events_of_a_stream_and_goes_on_after_any_of_them(
    web: str, stack: Stack, model: EchoServer
) -> None:
    async with listening(f"{web}/jobs/events") as socket:
        opened = await socket.receive_json()
        assert (opened["event"], opened["data"]) == ("open", {})
        new_job(stack, "free of another", OTHER_KEY)
        job = new_job(stack, "free and pushed")
        of_tenant = [await socket.receive_json() for _ in range(3)]
        await socket.send_str("anything")
        await socket.receive()
        assert socket.close_code == 4400
    async with listening(f"{web}/jobs/{job}/events") as socket:
        whole = await every(socket)
        assert (socket.close_code, whole[-1]["data"]) == (1000, {"reason": "ended"})
    async with reading(stack, f"/jobs/{job}/events") as events:
        streamed = [event async for event in events]
    assert whole[1:-1] == of_tenant == [{"id": it.id, "event": it.kind, "data": it.data} for it in streamed[1:-1]]
    async with listening(f"{web}/jobs/{job}/events?after={of_tenant[0]['id']}") as socket:
        assert (await every(socket))[:-1] == of_tenant[1:]
    for path, key, said in (
        (f"/batches/{job}/events", KEY, (4404, "not_found")),
        ("/jobs/job_unknown/events", KEY, (4404, "not_found")),
        ("/jobs/events?after=1", KEY, (4400, "invalid_value")),
        ("/jobs/events", "sk-none", (4401, "invalid_api_key")),
    ):
        assert await refused(web + path, key) == said
    others = json.loads(stack.gateway.ask("GET", "/v1/jobs", b"", OTHER_KEY)[2])["data"][0]["id"]
    assert await refused(f"{web}/jobs/{others}/events") == (4404, "not_found")


class Direct:
    """A socket of this process."""

    def __init__(self) -> None:
        kwargs = {"kind": ""}
        headers = [(b"authorization", f"Bearer {KEY}".encode())]
        scope = {"headers": headers, "query_string": b"", "url_route": {"kwargs": kwargs}}
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(sockets.events(scope, self._heard.get, self._said.put))

    async def told(self) -> str:
        """The next event, error, or close code."""
        said = await self._said.get()
        if "text" not in said:
            return str(said.get("code", said["type"]))
        text = json.loads(said["text"])
        return str(text["error"]["code"] if "error" in text else text["event"])

    async def leave(self) -> None:
        self._heard.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._task


@pytest.mark.django_db(transaction=True)
async def test_sockets_are_bounded_and_a_key_that_is_taken_away_ends_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adopt() -> None:
        tenant = Tenant.objects.create(name="alice", tier=Tier.objects.get_or_create(name="standard")[0])
        GatewayKey.objects.adopt(tenant, "sockets", KEY)

    await in_thread(adopt)
    monkeypatch.setattr(feed, "_READERS_OF_TENANT", 1)
    monkeypatch.setattr(sockets, "POLL_S", 0.01)
    first = Direct()
    assert [await first.told() for _ in range(2)] == ["websocket.accept", "open"]
    second = Direct()
    assert [await second.told() for _ in range(3)] == ["websocket.accept", "too_many_streams", "4429"]
    await first.leave()
    third = Direct()
    assert [await third.told() for _ in range(2)] == ["websocket.accept", "open"]
    await in_thread(lambda: GatewayKey.objects.update(enabled=False))
    assert [await third.told() for _ in range(2)] == ["invalid_api_key", "4401"]
