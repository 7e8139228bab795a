"""How batches and jobs stand, pushed to their tenant: through a real gateway and a real lane."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controlplane.lane.http import streams
from controlplane.lane.streams import Pulse
from tests.support.gateway.process import KEY, OTHER_KEY
from tests.support.lane.listening import Event, new_job, reading
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import Stack, a_line, ended, submit
from tests.support.wait import eventually_async

pytestmark = pytest.mark.processes

RAN = ["validating", "in_progress", "finalizing", "completed"]


async def until(events: AsyncIterator[Event], told: tuple[str, str]) -> list[Event]:
    """Those that change something, to this one."""
    out: list[Event] = []
    async for event in events:
        if event.kind not in ("open", "batch.progress"):
            out.append(event)
            if event.told == told:
                return out
    raise AssertionError(f"it ended before {told}: {out}")


async def test_a_tenant_is_told_of_all_that_is_its_own_and_again_from_any_event(
    stack: Stack, model: EchoServer
) -> None:
    model.hold()
    try:
        async with stack.client() as client, reading(stack, "/jobs/events") as events:
            opened = await anext(events)
            assert opened.kind == "open"
            new_job(stack, "free of another", OTHER_KEY)
            job = new_job(stack, "told job")
            batch = await submit(client, [a_line("1", "free to go"), a_line("2", "told line")])
            counts: list[int] = []
            async for event in events:
                if event.kind == "batch.progress" and event.data["data"]["id"] == batch.id:
                    counts.append(event.data["data"]["request_counts"]["completed"])
                    if counts[-1] == 1:
                        break
            model.let_go()
            await ended(client, batch)
        async with reading(stack, "/jobs/events", opened.id) as events:
            every = await until(events, (batch.id, "completed"))
    finally:
        model.let_go()
    assert counts == sorted(counts)
    by_id = {it: [event.told[1] for event in every if event.told[0] == it] for it in (job, batch.id)}
    assert by_id == {job: ["queued", "in_progress", "completed"], batch.id: RAN}
    assert {event.told[0] for event in every} == set(by_id), "another tenant's job is not told of"
    assert all(event.kind == event.data["type"] == f"{event.told[0].split('_')[0]}.{event.told[1]}" for event in every)
    for number, event in enumerate(every[:-1]):
        async with reading(stack, "/jobs/events", event.id) as events:
            assert await until(events, (batch.id, "completed")) == every[number + 1 :]
    for name, url, statuses in ((job, "jobs", by_id[job]), (batch.id, "batches", RAN)):
        async with reading(stack, f"/{url}/{name}/events") as events:
            told = [event async for event in events]
        assert [event.told[1] for event in told[1:-1]] == statuses
        assert (told[0].kind, told[-1].kind, told[-1].data) == ("open", "end", {"reason": "ended"})
        async with reading(stack, f"/{url}/{name}/events", told[2].id) as events:
            assert [event async for event in events][:-1] == told[3:-1]


async def test_who_asks_wrongly_is_told_so(stack: Stack) -> None:
    job = new_job(stack, "free and mine")
    for path, key in ((f"/jobs/{job}/events", OTHER_KEY), (f"/batches/{job}/events", KEY), ("/jobs/no/events", KEY)):
        async with reading(stack, path, key=key, status=404):
            pass
    async with reading(stack, "/jobs/events", "no event", status=400):
        pass
    for old in ("0-1-1", f"{10**17}-1-{10**11}"):
        async with reading(stack, "/jobs/events", old) as events:
            first = await anext(events)
            assert first.kind == "missed"
        async with reading(stack, "/jobs/events", first.id) as events:
            name = new_job(stack, "free afterwards")
            assert [it.told[0] for it in await until(events, (name, "completed"))][-1] == name


async def test_a_stream_ends_with_what_it_is_of_and_with_the_lane(stack: Stack, model: EchoServer) -> None:
    model.hold()
    try:
        deleted = new_job(stack, "to be deleted")
        async with reading(stack, f"/jobs/{deleted}/events") as events:
            assert (await until(events, (deleted, "in_progress")))[0].told == (deleted, "queued")
            assert stack.gateway.ask("DELETE", f"/v1/jobs/{deleted}", b"", KEY)[0] == 200
            assert [(it.kind, it.data) async for it in events] == [("end", {"reason": "deleted"})]
        async with reading(stack, "/jobs/events") as events:
            await anext(events)
            stack.lane.stop()
            last = [it async for it in events][-1]
            assert (last.kind, last.data) == ("end", {"reason": "again"})
        stack.lane.start().wait_ready()
        async with reading(stack, "/jobs/events", last.id) as events:
            model.let_go()
            name = new_job(stack, "after the lane")
            assert (await until(events, (name, "completed")))[-1].told == (name, "completed")
            stack.gateway.process.terminate()
            last = [it async for it in events][-1]
            assert (last.kind, last.data) == ("end", {"reason": "again"})
        await eventually_async(lambda: not stack.gateway.process.alive)
        stack.gateway.process.start().wait_ready()
    finally:
        model.let_go()


async def test_a_reader_that_takes_nothing_holds_little_and_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_UNREAD_S", 0.2)
    part, given, ended = b"x" * (1 << 20), Counter[str](), asyncio.Event()

    def read() -> tuple[bytes, bool]:
        given["parts"] += 1
        return part, False

    async def serve(request: web.Request) -> web.StreamResponse:
        try:
            return await streams.relay(request, Pulse(), 0.0, read)
        finally:
            ended.set()

    application = web.Application()
    application.router.add_get("/", serve)
    async with TestServer(application) as server:
        _, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 10)
        writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        await ended.wait()
        writer.close()
    assert given["parts"] < 20, "as much as sockets take, and no more"
