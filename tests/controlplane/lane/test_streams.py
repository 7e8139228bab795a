"""Streams of responses in the background: the official client, unchanged, and byte for byte, also across a lane's death."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.support.gateway.process import KEY
from tests.support.lane.model_server import MODEL, EchoServer
from tests.support.lane.process import Stack, a_fleet, answered, start_stack
from tests.support.start import Start
from tests.support.wait import eventually_async

pytestmark = pytest.mark.processes

GIVEN: dict[str, Any] = {"model": MODEL, "background": True, "stream": True}


def events_of(stack: Stack, name: str, after: int | None = None) -> list[str]:
    more = "" if after is None else f"&starting_after={after}"
    status, body = stack.gateway.get(f"/v1/responses/{name}?stream=true{more}")
    assert status == 200
    return [part + "\n\n" for part in body.split("\n\n")[:-1] if not part.startswith(":")]


async def test_a_stream_is_read_again_from_any_event_with_the_same_bytes(stack: Stack) -> None:
    async with stack.client() as client:
        seen = [event async for event in await client.responses.create(input="rivers and lakes", **GIVEN)]
        name = seen[0].response.id
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert [event.type for event in seen] == [
            "response.created",
            "response.queued",
            "response.in_progress",
            *["response.output_text.delta"] * 3,
            "response.completed",
        ]
        assert {event.response.id for event in seen if hasattr(event, "response")} == {name}
        assert (seen[0].response.status, seen[-1].response.output_text) == ("queued", "rivers and lakes ")
        whole = await client.responses.retrieve(name)
        assert (whole.status, whole.output_text) == ("completed", seen[-1].response.output_text)
        resumed = [event async for event in await client.responses.retrieve(name, stream=True, starting_after=2)]
        assert [event.model_dump() for event in resumed] == [event.model_dump() for event in seen[3:]]
        unstreamed = await client.responses.create(model=MODEL, input="x", background=True)
        for wrong in ({"starting_after": -1}, {"starting_after": "x"}):
            with pytest.raises(openai.BadRequestError):
                await client.responses.retrieve(name, stream=True, **wrong)  # type: ignore[call-overload]
        with pytest.raises(openai.BadRequestError):
            await client.responses.retrieve(unstreamed.id, stream=True)
    every = events_of(stack, name)
    assert all(events_of(stack, name, after) == every[after + 1 :] for after in range(len(every) + 1))


async def test_a_stream_that_is_written_oddly_is_an_answer(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        seen = [event async for event in await client.responses.create(input="odd streams", **GIVEN)]
        assert [event.type for event in seen][-2:] == ["response.output_text.delta", "response.completed"]
        assert (await client.responses.retrieve(seen[0].response.id)).output_text == "odd streams "
    assert model.asked["odd streams"] == 1


@pytest.mark.soak
async def test_readers_that_are_cut_off_a_thousand_times_have_every_byte_once(stack: Stack) -> None:
    draw, cuts = random.Random(23), 0
    headers = {"authorization": f"Bearer {KEY}"}
    async with stack.client() as client, aiohttp.ClientSession() as session:
        given = {**GIVEN, "input": " ".join(f"river{number}" for number in range(400))}
        first, *_ = [event async for event in await client.responses.create(**given)]
        name = first.response.id
        every = events_of(stack, name)
        while cuts < 1_000:
            got: list[str] = []
            while len(got) < len(every):
                url = f"{stack.gateway.base_url}/responses/{name}?stream=true&starting_after={len(got) - 1}"
                async with session.get(url.removesuffix("&starting_after=-1"), headers=headers) as answer:
                    data = b"".join([part async for part in limited(answer, draw.randint(1, 20_000))])
                cuts += 1
                got += [part + "\n\n" for part in data.decode().split("\n\n")[:-1] if not part.startswith(":")]
            assert got == every


async def limited(answer: aiohttp.ClientResponse, size: int) -> AsyncIterator[bytes]:
    """Its first bytes, so many at most."""
    while size > 0 and (part := await answer.content.read(size)):
        size -= len(part)
        yield part


async def test_a_stream_that_was_left_goes_on_where_it_was(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        stream = await client.responses.create(input="half of it is here", **GIVEN)
        first = []
        async for event in stream:
            first.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        name = first[0].response.id
        assert (await client.responses.retrieve(name)).status == "in_progress"
        model.go_on()
        after = first[-1].sequence_number
        rest = [event async for event in await client.responses.retrieve(name, stream=True, starting_after=after)]
        assert [it.sequence_number for it in first + rest] == list(range(len(first) + len(rest)))
        assert (
            "".join(it.delta for it in first + rest if it.type == "response.output_text.delta") == "half of it is here "
        )
    assert model.asked["half of it is here"] == 1


async def test_what_ends_without_a_last_event_gets_one_that_says_why(stack: Stack, model: EchoServer) -> None:
    async with stack.client() as client:
        refused = [event async for event in await client.responses.create(input="status:422", **GIVEN)]
        assert (refused[-1].type, refused[-1].response.error.code) == ("response.failed", "422")
        broken = []
        async for event in await client.responses.create(input="broken off here", **GIVEN):
            broken.append(event)
            if event.type == "response.output_text.delta":
                model.go_on()
    assert (broken[-1].type, broken[-1].response.error.code) == ("response.failed", "stream_broken")
    assert [event.type for event in broken[2:-1]] == ["response.in_progress", "response.output_text.delta"]
    assert model.asked["broken off here"] == 1


@pytest.mark.soak
async def test_a_stream_of_which_a_part_was_read_ends_with_its_worker(start: Start, tmp_path: Path) -> None:
    model = EchoServer().start()
    try:
        stack = start_stack(start, tmp_path, a_fleet(model.url), lane_lease_s="2")
        async with stack.client(max_retries=20) as client:
            stream = await client.responses.create(input="half a river", **GIVEN)
            name, number = "", 0
            async for event in stream:
                name, number = (getattr(event, "response", None) and event.response.id) or name, event.sequence_number
                if event.type == "response.output_text.delta":
                    break
            await stream.close()
            stack.lane.kill()
            await eventually_async(lambda: not stack.lane.alive)
            stack.lane.start().wait_ready()
            lost = await answered(client, await client.responses.retrieve(name))
    finally:
        model.stop()
    assert (lost.status, lost.error.code) == ("failed", "worker_lost")
    every = events_of(stack, name)
    last = json.loads(every[-1].split("data: ")[1])
    assert (last["type"], last["sequence_number"]) == ("response.failed", number + 1)
    assert events_of(stack, name, number) == every[-1:]
    assert model.asked["half a river"] == 1
